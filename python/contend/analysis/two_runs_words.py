"""Words for a comparison of two runs: the same in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass

from contend.analysis.two_runs import Change, Comparison
from contend.units import format_ratio, format_value

_VERDICTS = {"higher": "worse", "lower": "better", "refused": "undecided", "too few": "undecided"}
_MOST_MISSING = 5  # figures that a sentence names
NAMING = ("victim", "neighbour", "variant")  # factors that name a cell


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    metric: str
    levels: str
    ratio: str
    verdict: str
    primary: bool


def changed_cells(comparison: Comparison) -> list[Row]:
    """A line for every cell and metric that both runs hold."""
    telling = _telling(comparison)
    return [_row(change, telling) for change in comparison.cells]


def _telling(comparison: Comparison) -> frozenset[str]:
    """Factors that name a cell: more than NAMING where these leave two cells with one name, as of sizes of a platform."""
    cells = {tuple(sorted(c.factors.items())): c.factors for c in comparison.cells}.values()
    if len({tuple(f.get(k) for k in NAMING) for f in cells}) == len(cells):
        return frozenset(NAMING)
    keys = {k for f in cells for k in f}
    return frozenset(NAMING) | {k for k in keys if len({f.get(k) for f in cells}) > 1}


def _row(change: Change, telling: frozenset[str]) -> Row:
    e = change.estimate
    levels = (
        format_value(at.estimate.value, change.metric.unit) for at in (change.baseline, change.treatment)
    )
    return Row(
        name=" ".join(
            "alone" if (k, v) == ("neighbour", "none") else v
            for k, v in change.factors.items()
            if k in telling
        ),
        metric=change.metric.name,
        levels=" → ".join(levels),
        ratio=format_ratio(e.value, e.low, e.high),
        verdict=_VERDICTS.get(e.verdict, e.verdict),
        primary=change.metric.primary,
    )


def notes(comparison: Comparison, *, primary: bool = False) -> list[str]:
    """Notes on these figures that a reader must know, each once; with the cells it is about where these are not all.

    primary: of headline metrics only.
    """
    telling = _telling(comparison)
    about: dict[str, list[str]] = {}
    changes = [change for change in comparison.cells if change.metric.primary or not primary]
    for change in changes:
        row = _row(change, telling)
        for note in dict.fromkeys(change.estimate.warnings):
            about.setdefault(note, []).append(f"{row.name} {row.metric}".strip())
    return [
        note if len(cells) == len(changes) else f"{', '.join(cells)}: {note}" for note, cells in about.items()
    ]


def lacking(comparison: Comparison, second: str) -> str:
    """Say which headline figures cannot be judged because the second run does not have them; "" for none.

    >>> lacking(Comparison((), (), ("fio|stress-cpu iops",)), "runs/new")
    'runs/new has no fio|stress-cpu iops'
    """
    if comparison.missing:
        shown, rest = comparison.missing[:_MOST_MISSING], len(comparison.missing) - _MOST_MISSING
        return f"{second} has no {', '.join(shown)}{f' and {rest} more' if rest > 0 else ''}"
    if not any(change.metric.primary for change in comparison.cells):
        return "the two runs have no headline metric in common"
    return ""


def headline(comparison: Comparison) -> str:
    """How many headline metrics got worse and better, in a sentence."""
    verdicts = [change.estimate.verdict for change in comparison.cells if change.metric.primary]
    counted = {
        "worse": verdicts.count("higher"),
        "better": verdicts.count("lower"),
        "unaffected": verdicts.count("unaffected"),
    }
    counted["undecided"] = len(verdicts) - sum(counted.values())
    return f"{len(verdicts)} headline metric{'s' if len(verdicts) != 1 else ''}: " + ", ".join(
        f"{n} {what}" for what, n in counted.items() if n
    )
