"""What campaigns write into docs/results: where that is, and of which version it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"


def commit() -> str:
    """This tree's, short. CONTEND_TEST_COMMIT names it where the tree is not a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return os.environ.get("CONTEND_TEST_COMMIT") or done.stdout.strip() or "unknown"
