"""A run as `contend report` showed it; the long list of what the hardware did in each cell is left to the data file."""

from __future__ import annotations

from contend.units import format_ratio
from results.files import Data
from results.words import fence

_LONG = "Hardware meanwhile"
_LINES = 4


def body(d: Data) -> str:
    """The report, and what the exit code means."""
    texts = d["shown"] if isinstance(d["shown"], list) else [d["shown"]]
    few = "The budget ended before all planned blocks were measured (exit 3)." if d.get("exit") == 3 else ""
    return "\n\n".join(filter(None, [few, *(fence(shortened(text)) for text in texts)]))


def shortened(text: str) -> str:
    """Without the rows of cells under Hardware meanwhile, whose number is said."""
    kept: list[str] = []
    left, inside = 0, 0
    for line in text.splitlines():
        if line == _LONG:
            inside = 1
        elif inside and not line.startswith(" "):
            if left:
                kept.append(f"  … {left} more lines in the data file")
            inside = left = 0
        if inside:
            inside += 1
            if inside > _LINES + 2:
                left += 1
                continue
        kept.append(line)
    if left:
        kept.append(f"  … {left} more lines in the data file")
    return "\n".join(kept)


def variant(d: Data, metric: str, name: str) -> str:
    """A variant's ratio to the baseline, as reports write it."""
    return _ratio(d, metric, variant=name)


def beside(d: Data, neighbour: str) -> str:
    """A victim's slowdown beside a neighbour, of the primary metric."""
    (primary,) = {cell["metric"]["name"] for cell in d["analysis"]["cells"] if cell["metric"]["primary"]}
    return _ratio(d, primary, neighbour=neighbour)


def lost(d: Data, load: str) -> str:
    """What a neighbour takes of the IOPS of a load on a pool, in per cent."""
    (e,) = [
        cell["estimate"]
        for cell in d["analysis"]["cells"]
        if cell["metric"]["name"] == "iops" and f" {load} " in f" {cell['factors']['victim']} "
    ]
    value, low, high = (100 * (1 - 1 / e[key]) for key in ("value", "low", "high"))
    return f"{value:.0f} % [{low:.0f}, {high:.0f}]"


def _ratio(d: Data, metric: str, **factors: str) -> str:
    (e,) = [
        cell["estimate"]
        for cell in d["analysis"]["cells"]
        if cell["metric"]["name"] == metric and factors.items() <= cell["factors"].items()
    ]
    return str(format_ratio(e["value"], e["low"], e["high"]))
