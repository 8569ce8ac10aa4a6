"""Mutation testing by hand: `python scripts/mutants.py stats --sample 300 --seed 20261124`; never in CI.

Targets are parts of the Python package and `rust`. Each writes its part of docs/results/mutants.json, and the page is
rendered from that; `page` renders it only. What was found before is kept in target/mutants: a second run tries what
survived only where the tests have changed. Reasons for survivors are read from scripts/mutation/reasons.toml.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutation.targets import PYTHON


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Put small faults into the code and see which the tests notice."
    )
    parser.add_argument("what", choices=[*(target.name for target in PYTHON), "rust", "page"])
    parser.add_argument("--sample", type=int, default=300, help="mutants drawn of each target (default 300)")
    parser.add_argument("--seed", type=int, default=20261124)
    parser.add_argument("--jobs", type=int, default=2, help="tried beside each other (default 2)")
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="begin no further one after so many (default 600)"
    )
    asked = parser.parse_args()
    os.nice(10)
    from mutation import page

    if asked.what == "rust":
        from mutation import rust

        page.add(asked.what, rust.result(asked.sample, asked.seed, asked.jobs, asked.minutes))
    elif asked.what != "page":
        from mutation import python

        page.add(asked.what, python.result(asked.what, asked.sample, asked.seed, asked.jobs, asked.minutes))
    page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
