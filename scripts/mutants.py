"""Mutation testing by hand: `python scripts/mutants.py stats --sample 300 --seed 20261124`; never in CI.

Targets are parts of the Python package and `rust`. Each writes docs/results/mutants-TARGET.json and the page; `reasons` puts
the reasons of today beside what was counted before. What was found before is kept in target/mutants: a second run tries what
survived only where the tests have changed. Reasons for survivors are read from scripts/mutation/reasons.toml.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# bench first: its package `results` has the name of a script here.
sys.path[:0] = [str(Path(__file__).parents[1] / "bench"), str(Path(__file__).parent)]

from mutation.targets import PYTHON  # noqa: E402 - scripts is no package of the environment


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Put small faults into the code and see which the tests notice."
    )
    parser.add_argument("what", choices=[*(target.name for target in PYTHON), "rust", "reasons"])
    parser.add_argument("--sample", type=int, default=300, help="mutants drawn of each target (default 300)")
    parser.add_argument("--seed", type=int, default=20261124)
    parser.add_argument("--jobs", type=int, default=2, help="tried beside each other (default 2)")
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="begin no further one after so many (default 600)"
    )
    asked = parser.parse_args()
    os.nice(10)
    from mutation import page

    from results import render
    from results.recipes import of_data
    from results.record import recording

    if asked.what == "reasons":
        for target in (*(target.name for target in PYTHON), "rust"):
            if of_data(f"mutants-{target}"):
                page.explain(target)
                render.write_pages_of(f"mutants-{target}")
        return 0
    with recording():
        if asked.what == "rust":
            from mutation import rust

            result = rust.result(asked.sample, asked.seed, asked.jobs, asked.minutes)
        else:
            from mutation import python

            result = python.result(asked.what, asked.sample, asked.seed, asked.jobs, asked.minutes)
        page.save(asked.what, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
