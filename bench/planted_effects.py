"""Does the interval of `contend ab` hold an effect that is known, and how often does its control alarm?

    python bench/planted_effects.py -o DIR [--count 60] [--seed 1] [--write docs/results/planted-effects]      (20 min)
    python bench/planted_effects.py -o DIR --on-off [--count 100] [--write docs/results/planted-effects-on-off]

A and B are one burner (bench/burn.c) with N rounds and N (1 + e), so that the true ratio of their times is known: e is 3, 8
and 20 % in turn. What the process takes to start is measured, with no rounds, and is in the truth. Each run is `contend ab`
as it is, which stops by its own looks at the data.

With --on-off a neighbour works and rests beside each run, at moments drawn by chance: one of ten real programs in turn
(`on_off.NEIGHBOURS`). It slows A and B alike, so that the truth stays what it is.

A row is kept when its run is complete: a campaign that was stopped goes on where it stood.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from on_off import NEIGHBOURS, beside
from results.campaign import gathering, parser

EFFECTS = (0.03, 0.08, 0.20)
LENGTH_S = 0.25
STARTS = 40
BURN = Path(__file__).parent / "burn.c"
CONTEND = (sys.executable, "-m", "contend")

Row = dict[str, Any]


def main() -> int:
    """1 where a run failed."""
    words = parser(__doc__, count=60)
    words.add_argument("--on-off", action="store_true", help="beside neighbours that come and go")
    given = words.parse_args()
    with gathering(given) as campaign:
        burner = campaign.output / "burn"
        if not burner.exists():
            subprocess.run(["cc", "-O2", "-o", burner, BURN], check=True)

        def drawn(number: int) -> Row:
            name = list(NEIGHBOURS)[number % len(NEIGHBOURS)] if given.on_off else ""
            # Of ten neighbours in turn the next ten have the next effect.
            effect = EFFECTS[(number // len(NEIGHBOURS) if name else number) % len(EFFECTS)]
            return {"beside": name} | one(burner, effect, given.seed + number, name)

        rows = campaign.rows(drawn)
        campaign.write({"rows": rows})
    return 1 if any("failed" in row for row in rows) else 0


def one(burner: Path, effect: float, seed: int, name: str) -> Row:
    """Run one comparison, with the truth of the machine's speed by then, beside a neighbour where one is named."""
    starts_s = statistics.median(timed(burner, 1) for _ in range(STARTS))
    rounds = 50_000_000
    rounds = round(rounds * LENGTH_S / (timed(burner, rounds) - starts_s))
    works_s = timed(burner, rounds) - starts_s
    truth = (starts_s + works_s * (1 + effect)) / (starts_s + works_s)
    sides = [[str(burner.resolve()), str(count)] for count in (rounds, round(rounds * (1 + effect)))]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="contend-effects-", dir=burner.parent)
        )
        if name:
            stack.enter_context(beside(name, burner.parent.resolve(), seed))
        run = subprocess.run(
            [*CONTEND, "ab", "--json", "--seed", str(seed), "--", *sides[0], "--vs", *sides[1]],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        shutil.rmtree(Path(folder) / "runs", ignore_errors=True)
    if run.returncode:
        return {"effect": effect, "failed": run.stderr.strip()[-300:]}
    analysis = json.loads(run.stdout)["data"]
    (cell,) = (cell for cell in analysis["cells"] if cell["metric"]["primary"])
    (control,) = (control for control in analysis["controls"] if control["metric"]["primary"])
    return {
        "effect": effect,
        "truth": round(truth, 6),
        "ratio": bounds_of(cell["estimate"]),
        "verdict": cell["estimate"]["verdict"],
        "blocks": analysis["design"]["blocks"],
        "stopped": analysis["design"]["stopped"],
        "control": bounds_of(control["estimate"]),
        "alarm": control["alarm"],
        "flags": analysis["flags"],
    }


def bounds_of(estimate: Row) -> list[float]:
    return [round(estimate[bound], 5) for bound in ("value", "low", "high")]


def timed(burner: Path, rounds: int) -> float:
    begin = time.perf_counter()
    subprocess.run([burner, str(rounds)], check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
