"""The estimators on experiments whose true answer is known; 45 minutes for the figures of the page.

The same seed gives the same figures.

    python bench/known_answers.py [--experiments 2000] [--seed 20260101] [--write docs/results/known-answers]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from known import answers
from results.files import save_at
from results.record import recording


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    found = answers.everything(given.experiments, given.seed)
    print(answers.markdown(found))
    if given.write:
        save_at(
            given.write,
            {"numpy": np.__version__, "results": [one.to_json() for one in found]},
            seed=given.seed,
        )


if __name__ == "__main__":
    main()
