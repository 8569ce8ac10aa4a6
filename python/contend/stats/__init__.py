"""Statistics that hold on noisy hosts. `compare` is the public entry; docs/concepts/method.md says why.

Modules that need numpy are imported on first use: contend.stats is on the command line's start path.
"""

from contend.stats.compare import compare
from contend.stats.estimate import VERDICTS, Estimate, verdict_of

__all__ = ["VERDICTS", "Estimate", "compare", "verdict_of"]
