"""What recording adds to a request, in counts."""

from __future__ import annotations

from results.files import Data
from results.words import table

ALL = "all"


def body(d: Data) -> str:
    """By component, off and on; each mode was counted twice."""
    names = sorted(d["parts"][0]["a_request"], key=lambda name: -count(d, "off", name))
    rows = [
        [name, *(f"{count(d, mode, name):,.0f}" for mode in ("off", "on")), f"{added(d, name):+,.0f}"]
        for name in names
    ]
    return f"""\
Counts by callgrind of one request of a small service (Flask, SQLAlchemy, SQLite), in which the tracer records
{d["events_a_request"]:.0f} events; {d["requests"]} requests a count. They do not depend on what else the host does, and they
leave out the thread that writes. Recording adds {share(d)} to the instructions of a request, and {share(d, "lines of data")} to the
cache lines of data that come from beyond the second level.

Instructions a request:

{table(["", "off", "on", "added"], rows, "lrrr")}"""


def count(d: Data, mode: str, name: str = ALL, what: str = "instructions") -> float:
    """The mean of the two counts of a mode."""
    found = [part["a_request"][name][what] for part in d["parts"] if part["mode"] == mode]
    return float(sum(found) / len(found))


def added(d: Data, name: str, what: str = "instructions") -> float:
    """By recording, a request."""
    return count(d, "on", name, what) - count(d, "off", name, what)


def share(d: Data, what: str = "instructions") -> str:
    """Of a whole request without recording."""
    return f"{100 * added(d, ALL, what) / count(d, 'off', what=what):.1f} %"
