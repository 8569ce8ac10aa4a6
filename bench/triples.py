"""A victim beside two neighbours: what it comes to, of what it is beside each.

    python bench/triples.py -o DIR [--count 10] [--seed 1] [--write docs/results/triples [--resume]]

Three of the workloads of bench/forecast_pairs.py are drawn, and run on one CPU: each alone, beside each of the others, and
beside both, in blocks. With more than two workloads on a host `contend advise` has only pairs to go by.

A triple's row is kept when it is complete: a campaign that was stopped goes on where it stood.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from forecast_pairs import WORKLOADS, bounds_of
from results.campaign import gathering, parser

CONTEND = (sys.executable, "-m", "contend")
BLOCKS = 6  # fewer have no interval

Row = dict[str, Any]


def main() -> int:
    """1 where a triple failed."""
    given = parser(__doc__, count=10).parse_args()
    with gathering(given) as campaign:
        rows = campaign.rows(lambda number: one(campaign.output, number, given.seed))
        campaign.write({"blocks": BLOCKS, "rows": rows})
    return 1 if any("failed" in row for row in rows) else 0


def one(output: Path, number: int, seed: int) -> Row:
    """Run a triple."""
    three = random.Random(1_000_003 * seed + number).sample(yaml.safe_load(WORKLOADS), 3)
    mixes = [three, *map(list, itertools.combinations(three, 2))]
    scenario = {
        "study": "interference",
        "victims": three[:1],
        "mixes": mixes,
        "placement": "same-cpu",
        "measure": {"blocks": BLOCKS, "target": None, "trial": "600ms", "pilot": 1, "seed": seed + number},
    }
    with tempfile.TemporaryDirectory(prefix="contend-triples-", dir=output) as name:
        path = Path(name) / "triple.yaml"
        path.write_text(yaml.safe_dump(scenario), encoding="utf-8")
        run = subprocess.run(
            [*CONTEND, "run", path.name, "--json"], cwd=name, capture_output=True, text=True, check=False
        )
    if run.returncode:
        return {"failed": run.stderr.strip()[-300:]}
    cells = [cell for cell in json.loads(run.stdout)["data"]["cells"] if cell["metric"]["primary"]]
    victims = dict.fromkeys(cell["factors"]["victim"] for cell in cells)
    return {"victims": [of_victim(victim, cells) for victim in victims]}


def of_victim(victim: str, cells: list[Row]) -> Row:
    """Its slowdowns beside each of two, and beside both."""
    slowed = {
        cell["factors"]["neighbour"]: bounds_of(cell["estimate"])
        for cell in cells
        if cell["factors"]["victim"] == victim
    }
    (both,) = (neighbour for neighbour in slowed if " + " in neighbour)
    first, second = both.split(" + ")
    return {
        "victim": victim,
        "beside": [first, second],
        "each": [slowed[first], slowed[second]],
        "both": slowed[both],
    }


if __name__ == "__main__":
    sys.exit(main())
