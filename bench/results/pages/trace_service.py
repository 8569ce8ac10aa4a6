"""What recording costs keystone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from results.files import Data
from results.words import interval, ratio, table

HEAD = ["", "off", "on", "ratio, 95 % interval"]
WHAT = {"requests a second": (0, 2, 1, 2), "CPU ms a request": (1, 0, 1000, 1)}


def body(data: Mapping[str, Data]) -> str:
    """From the times of starts, and a second series as it was printed."""
    d, again = data["trace-service"], data["trace-service-again"]
    printed = [
        [
            r["what"],
            f"{r['off']:.{WHAT[r['what']][3]}f}",
            f"{r['on']:.{WHAT[r['what']][3]}f}",
            interval(r["ratio"], 4),
        ]
        for r in again["printed"]
    ]
    return f"""\
`GET /v3/users` by wrk, gunicorn with one worker. A request makes {statistics.median(d["events"]):.0f} events;
{d["starts"]} starts of {d["rounds"]} pairs.

{measured(d)}

## Again, with fewer cache lines of a request, at commit {again["made"]["commit"]}

{again["starts"]} starts of {again["rounds"]} pairs; {again["events"]} events a request.

{table(HEAD, printed, "lrrr")}"""


def measured(d: Data) -> str:
    """With nothing on record, and with all."""
    return table(HEAD, [_row(d, what) for what in WHAT], "lrrr")


def series(d: Data, what: str) -> tuple[list[float], list[float]]:
    """Off and on, of each pair."""
    above, below, scale, _ = WHAT[what]
    off, on = ([scale * row[mode][above] / row[mode][below] for row in d["rows"]] for mode in ("off", "on"))
    return off, on


def _row(d: Data, what: str) -> list[object]:
    off, on = series(d, what)
    digits = WHAT[what][3]
    return [what, *(f"{statistics.median(of):.{digits}f}" for of in (off, on)), interval(ratio(off, on), 4)]


def lost(d: Data) -> str:
    """Throughput that recording takes, in per cent."""
    if "printed" in d:
        (r,) = [row["ratio"] for row in d["printed"] if row["what"] == "requests a second"]
    else:
        e = ratio(*series(d, "requests a second"))
        r = {"value": e.value, "low": e.low, "high": e.high}
    return less(r)


def less(r: Mapping[str, float]) -> str:
    """A ratio as what is lost of the whole."""
    return f"{100 * (1 - r['value']):.1f} % [{100 * (1 - r['high']):.1f}, {100 * (1 - r['low']):.1f}]"
