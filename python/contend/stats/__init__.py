"""Statistics that hold on noisy hosts. `compare` is the public entry; METHOD in docs/concepts/method.md."""

from contend.stats.estimate import VERDICTS, Estimate, verdict_of

__all__ = ["VERDICTS", "Estimate", "verdict_of"]
