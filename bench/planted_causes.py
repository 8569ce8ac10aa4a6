"""Does a finding name what slows a victim, where that is known?

    python bench/planted_causes.py -o DIR [--count 120] [--seed 1] [--only KIND,KIND] [--write docs/results/planted-causes]

A victim and a neighbour are drawn that share one thing (`causes.planted.KINDS`), two, or nothing. How much the victim does
beside that is drawn too. contend runs both by `noisy-neighbour`'s study: the neighbour is there and not there in randomised
turns, so that all of the slowdown is the planted thing's; of two, each alone and both, so that it is known what removing
either would give. Kinds that this host or user cannot plant are left out.

A run's rows are kept when it is complete: a campaign that was stopped goes on where it stood, also with other kinds, and
what is written is judged by the rules as they are then. Draws of a kind that is planted, or
seen, in another way since are made again.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from causes.planted import KINDS, PAIRED
from causes.planter import possible
from causes.runs import RunFailed, judged, measured
from results.campaign import gathering, parser

BLOCKS = 6
NOTHING = "nothing"
NULLS = 0.3
"""Part of the draws in which nothing is planted."""
PAIRS = 0.1
SCALES = (0.7, 6.0)
"""Of the victim's own work, drawn evenly in its logarithm."""

Row = dict[str, Any]


def main() -> int:
    """1 where a run failed."""
    words = parser(__doc__, count=120)
    words.add_argument("--only", default="", help=f"these kinds, with commas, or `{NOTHING}` for that alone")
    given = words.parse_args()
    deck = list(draws(given.count, given.seed, [kind for kind in given.only.split(",") if kind]))
    with gathering(given) as campaign:
        runs = campaign.output / "runs"

        def drawn(number: int) -> Row:
            kinds, scale = deck[number]
            row = one(kinds, scale, number + given.seed, kept_at(runs, number, kinds))
            return {"kinds": kinds, "scale": round(scale, 3)} | row

        def is_stale(number: int, row: Row) -> bool:
            return "failed" not in row and not kept_at(runs, number, row["kinds"]).exists()

        rows = campaign.rows(drawn, shown, is_stale=is_stale)
        rows = [row | again(kept_at(runs, number, row["kinds"])) for number, row in enumerate(rows)]
        absent = [kind for kind, of in KINDS.items() if not possible(of.needs)]
        campaign.write({"blocks": BLOCKS, "absent": absent, "rows": rows})
    return 1 if any("failed" in row for row in rows) else 0


def kept_at(runs: Path, number: int, kinds: Sequence[str]) -> Path:
    """Where a draw's run is kept; of each way to plant or to see its kinds, in another place."""
    ways = [KINDS[kind].way for kind in kinds]
    return runs / "-".join([f"{number:04d}", *(map(str, ways) if max(ways) > 1 else ())])


def draws(count: int, seed: int, only: Collection[str] = ()) -> Iterator[tuple[list[str], float]]:
    """Kinds, each as often as the others, with nothing and two at once among them; and scales."""
    chance = random.Random(seed)
    kinds = [kind for kind in only or KINDS if kind != NOTHING and possible(KINDS[kind].needs)]
    paired = [kind for kind in PAIRED if kind in kinds]
    every = len(kinds) / (1 - NULLS - PAIRS)
    deck: list[list[str]] = []
    for _ in range(count):
        if not deck and not kinds:
            deck = [[NOTHING]]
        elif not deck:
            pairs = [two(paired, chance) for _ in range(round(every * PAIRS))] if len(paired) > 1 else []
            deck = [[kind] for kind in kinds] + [[NOTHING]] * round(every * NULLS) + pairs
            chance.shuffle(deck)
        low, high = SCALES
        yield deck.pop(), low * (high / low) ** chance.random()


def two(kinds: Sequence[str], chance: random.Random) -> list[str]:
    """Two kinds that have different names."""
    first = chance.choice(kinds)
    return [first, chance.choice([kind for kind in kinds if KINDS[kind].named != KINDS[first].named])]


def one(kinds: list[str], scale: float, seed: int, keep: Path) -> Row:
    """Run one draw."""
    with tempfile.TemporaryDirectory(prefix="contend-causes-", dir=Path.cwd()) as name:
        try:
            return scored(measured(Path(name), kinds, scale=scale, blocks=BLOCKS, seed=seed, keep=keep))
        except RunFailed as failed:
            return {"failed": str(failed)}


def again(kept: Path) -> Row:
    """Judge a kept run once more; nothing where it failed."""
    return scored(judged(kept)) if kept.exists() else {}


def scored(analysis: Row) -> Row:
    """The answer beside each neighbour: the slowdown with its interval, causes with their shares, and the sentence."""
    (control,) = (control for control in analysis["controls"] if control["metric"]["primary"])
    findings = {id_of(finding["estimate"]): finding for finding in analysis["findings"]}
    beside = []
    for cell in analysis["cells"]:
        if not cell["metric"]["primary"]:
            continue
        estimate, finding = cell["estimate"], findings.get(id_of(cell["estimate"]))
        beside.append(
            {
                "ratio": [round(estimate[bound], 4) for bound in ("value", "low", "high")],
                "verdict": estimate["verdict"],
                "flagged": sum(len(cell[side]["flagged"]) for side in ("baseline", "treatment")),
                "causes": [shared(cause) for cause in finding.get("causes", ())] if finding else None,
                "sentence": finding["sentence"] if finding else "",
            }
        )
    return {"alarm": control["alarm"], "beside": beside}


def shared(cause: Row) -> list[Any]:
    """A cause's name, and its share with the interval."""
    shares = (cause["share"], cause.get("low"), cause.get("high"))
    return [cause["resource"], *(None if share is None else round(share, 4) for share in shares)]


def id_of(estimate: Row) -> tuple[float, float]:
    """Findings carry their cell's estimate, and not its name."""
    return estimate["value"], estimate["low"]


def shown(row: Row) -> str:
    beside = (f"{of['ratio'][0]:.2f} {of['causes'] or of['verdict']}" for of in row.get("beside", ()))
    return f"{' + '.join(row['kinds'])}: {row.get('failed') or '; '.join(beside)}"


if __name__ == "__main__":
    sys.exit(main())
