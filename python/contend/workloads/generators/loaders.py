"""Programs that load a server: calls them, and sums up their figures in one form."""

from __future__ import annotations

import math
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

from contend.errors import TrialFailed
from contend.files import NO_OUTPUT
from contend.ranks import nearest


def call(argv: Sequence[str], log: Path) -> str:
    """Run a tool and return its output, which is in `log` too; its other files go beside it. Raises TrialFailed when
    it cannot be started or fails."""
    # A socket for every user.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with log.open("wb") as file:
            code = subprocess.run(
                argv, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            ).returncode
    except OSError as error:
        raise TrialFailed(
            f"{argv[0]}: {error.strerror}", hint="put it on PATH, or choose another loader"
        ) from error
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    text = log.read_text(encoding="utf-8", errors="replace")
    if code != 0:
        lines = text.strip().splitlines() or [NO_OUTPUT]
        word = next((line for line in lines if line.lower().startswith("error")), lines[-1])
        raise TrialFailed(f"{argv[0]} ended with exit status {code}: {word[:300]}", hint=f"see {log}")
    return text


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median, 99th percentile and maximum; a percentile is the least value that this share does not exceed.

    >>> summary([0.4, 0.1, 0.2, 0.3])
    {'mean': 0.25, 'p50': 0.2, 'p99': 0.4, 'max': 0.4}
    """
    ordered = sorted(seconds)
    mean = math.fsum(ordered) / len(ordered)
    return {"mean": mean, "p50": nearest(ordered, 0.5), "p99": nearest(ordered, 0.99), "max": ordered[-1]}
