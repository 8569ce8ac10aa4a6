"""Does a finding name what slows a victim, where that is known?

    python bench/planted_causes.py -o DIR [--count 120] [--seed 1] [--write docs/results/planted-causes]

A victim and a neighbour are drawn that share one thing: a file's lock, a journal, a disk, a page cache, a service, a CPU; or
nothing. How much the victim does beside that is drawn too. contend runs both by `noisy-neighbour`'s study: the neighbour is
there and not there in randomised turns, so that all of the slowdown is the planted thing's. Counted are the draws in which
the victim is slowed by what matters: whether the first cause is that thing, and whether the share that it says is 90 % or
more. Of draws in which nothing is planted it is counted how often a cause is named.

A row is kept when its run is complete: a campaign that was stopped goes on where it stood.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from causes import planted
from results.files import save_at
from results.record import recording

CONTEND = (sys.executable, "-m", "contend")
BLOCKS = 6
PLANTED = tuple(kind for kind in planted.VICTIMS if kind != "nothing")
NULLS = 4
"""Nothing is planted in one of so many draws."""
SCALES = (0.7, 6.0)
"""Of the victim's own work, drawn evenly in its logarithm."""
LONGEST_S = 300

Row = dict[str, Any]


def main() -> int:
    """1 where a run failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    kept = given.output / "rows.ndjson"
    with recording():
        rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        for number, (kind, scale) in enumerate(draws(given.count, given.seed)):
            if number < len(rows):
                continue
            rows.append({"kind": kind, "scale": round(scale, 3)} | one(kind, scale, number + given.seed))
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(
                number,
                kind,
                *(rows[-1].get(key) for key in ("ratio", "named", "share", "failed")),
                flush=True,
            )
        if given.write:
            save_at(given.write, {"blocks": BLOCKS, "rows": rows}, seed=given.seed)
    return 1 if any("failed" in row for row in rows) else 0


def draws(count: int, seed: int) -> Iterator[tuple[str, float]]:
    """Kinds, each as often as the others, and scales."""
    chance = random.Random(seed)
    deck: list[str] = []
    for _ in range(count):
        if not deck:
            deck = [*PLANTED, *["nothing"] * round(len(PLANTED) / (NULLS - 1))]
            chance.shuffle(deck)
        kind = deck.pop()
        low, high = SCALES
        yield kind, low * (high / low) ** chance.random()


def one(kind: str, scale: float, seed: int) -> Row:
    """Run one draw."""
    with (
        tempfile.TemporaryDirectory(prefix="contend-causes-", dir=Path.cwd()) as name,
        service(Path(name)) as port,
    ):
        folder = Path(name)
        paths = [planted.write(folder, kind, role, port, scale) for role in ("victim", "neighbour")]
        (folder / "planted.yaml").write_text(
            planted.SCENARIO.format(
                victim=paths[0],
                neighbours=paths[1],
                placement=planted.placement(kind),
                blocks=BLOCKS,
                seed=seed,
            ),
            encoding="utf-8",
        )
        run = subprocess.run(
            [*CONTEND, "run", "planted.yaml", "--json"],
            cwd=folder, capture_output=True, text=True, timeout=LONGEST_S, check=False,
        )  # fmt: skip
        if run.returncode:
            return {"failed": run.stderr.strip()[-300:]}
        analysis = json.loads(run.stdout)["data"]
        return scored(analysis)


def scored(analysis: Row) -> Row:
    """What the run says of the one comparison."""
    (cell,) = (cell for cell in analysis["cells"] if cell["metric"]["primary"])
    (control,) = (control for control in analysis["controls"] if control["metric"]["primary"])
    estimate = cell["estimate"]
    flagged = sum(len(cell[side]["flagged"]) for side in ("baseline", "treatment"))
    row = {
        "ratio": [round(estimate[bound], 4) for bound in ("value", "low", "high")],
        "verdict": estimate["verdict"],
        "alarm": control["alarm"],
        "flagged": flagged,
        "named": "",
        "share": None,
        "sentence": "",
    }
    if analysis["findings"]:
        (finding,) = analysis["findings"]
        row |= {"named": finding["resource"], "share": finding["share"], "sentence": finding["sentence"]}
        row["first"] = share_of_first(finding["sentence"])
    return row


def share_of_first(sentence: str) -> float | None:
    """The share of the first cause: the document has that of all of them."""
    before, found, _ = sentence.partition(" % of the slowdown)")
    return int(before.rpartition("(")[2]) / 100 if found else None


@contextmanager
def service(folder: Path) -> Iterator[int]:
    """A service that nobody measures; its port."""
    script = folder / "service.py"
    script.write_text(planted.SERVICE.replace("FOLDER", str(folder)), encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
