"""What recording costs keystone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from results.files import Data
from results.words import interval, pct, ratio, table

WHAT = {"requests a second": (0, 2, 1, 2), "CPU ms a request": (1, 0, 1000, 1)}
_PAIRS_OF_A_START = 8
"""Where starts are not apart in the data."""


def body(d: Data) -> str:
    """Over starts; and whether the method itself makes up a difference."""
    starts = by_start(d)
    modes = list(starts[0][0])
    e = ratio(*(series(starts, mode, "requests a second") for mode in ("off", "on")))
    faster = sum(
        on > off
        for off, on in zip(
            *(series(starts, mode, "requests a second") for mode in ("off", "on")), strict=True
        )
    )
    told = [
        f"`GET /v3/users` by wrk, gunicorn with one worker. A request makes {statistics.median(d['events']):.0f} events;"
        f" {len(starts)} starts, each of {len(starts[0])} rounds. The unit is the start: ratios are of its sums."
    ]
    if "control" not in modes and e.low > 1:
        told.append(
            f"**What recording costs Keystone was not measured: the method has a bias.** {faster} of {len(starts)} starts had more"
            f" requests a second while they were recorded, {interval(e, 3)} times as many over starts, which no recorder can"
            " bring about."
        )
    return f"{' '.join(told)}\n\n{measured(starts)}"


def by_start(d: Data) -> list[list[Mapping[str, Sequence[float]]]]:
    """The rounds of each start."""
    if isinstance(d["starts"], list):
        return list(d["starts"])
    rows = d["rows"]
    return [rows[at : at + _PAIRS_OF_A_START] for at in range(0, len(rows), _PAIRS_OF_A_START)]


def measured(starts: Sequence[Sequence[Mapping[str, Sequence[float]]]]) -> str:
    """By mode, and each mode to `off`."""
    modes = list(starts[0][0])
    rows = []
    for what, (*_, digits) in WHAT.items():
        of = {mode: series(starts, mode, what) for mode in modes}
        others = [interval(ratio(of["off"], of[mode]), 4) for mode in modes if mode != "off"]
        rows.append([what, *(f"{statistics.median(of[mode]):.{digits}f}" for mode in modes), *others])
    head = ["", *modes, *(f"{mode} to off, 95 %" for mode in modes if mode != "off")]
    return table(head, rows, "l" + "r" * (len(head) - 1))


def rate(d: Data, mode: str) -> str:
    """Requests a second under a mode, as a multiple of those without a recording."""
    starts = by_start(d)
    return interval(ratio(*(series(starts, of, "requests a second") for of in ("off", mode))), 3)


def series(starts: Sequence[Sequence[Mapping[str, Sequence[float]]]], mode: str, what: str) -> list[float]:
    """A figure of each start, of its sums."""
    above, below, scale, _ = WHAT[what]
    return [
        scale * sum(row[mode][above] for row in rows) / sum(row[mode][below] for row in rows)
        for rows in starts
    ]


def less(value: float, low: float, high: float) -> str:
    """A ratio as what is lost of the whole."""
    return f"{pct(1 - value, 1)} [{100 * (1 - high):.1f}, {100 * (1 - low):.1f}]"
