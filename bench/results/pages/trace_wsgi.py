"""What tracing costs a WSGI service."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from results.files import Data
from results.pages.trace_service import less
from results.words import interval, ratio, table

WHAT = {
    "rate": "requests a second",
    "cpu_us": "CPU µs of the server a request",
    "switches": "switches of its threads a request",
}


def body(d: Data) -> str:
    """Two processes side by side."""
    losses = " and ".join(f"{lost(d, server)} on {server}" for server in d["results"])
    parts = [
        "Flask and SQLAlchemy on SQLite, with a lock and a queue; wrk with 8 connections. At commit"
        f" {d['made']['commit']} recording took {losses} of the requests a second. [Keystone](trace-service.md), a real service,"
        " is measured apart."
    ]
    for server, found in d["results"].items():
        parts += [f"## {server}, {len(found)} blocks", of_server(found)]
    return "\n\n".join(parts)


def lost(d: Data, server: str) -> str:
    """Throughput that recording takes."""
    e = ratio(*_series(d["results"][server], "rate"))
    return less(e.value, e.low, e.high)


def losses(d: Data) -> str:
    """From the server that loses least to the one that loses most."""
    of = [100 * (1 - ratio(*_series(found, "rate")).value) for found in d["results"].values()]
    return f"{min(of):.0f} to {max(of):.0f} %"


def of_server(found: list[list[Mapping[str, Any]]]) -> str:
    """By block its pairs."""
    keys = [key for key in WHAT if key in found[0][0]["plain"]]
    return table(["", "plain", "traced", "ratio, 95 % interval"], [_row(found, key) for key in keys], "lrrr")


def _row(found: list[list[Mapping[str, Any]]], key: str) -> list[object]:
    plain, traced = _series(found, key)
    medians = (f"{statistics.median(of):,.4g}" for of in (plain, traced))
    return [WHAT[key], *medians, interval(ratio(plain, traced), 4)]


def _series(found: Sequence[Sequence[Mapping[str, Any]]], key: str) -> tuple[list[float], list[float]]:
    """Of a block the median pair: one that was disturbed after all does not count."""
    pairs = [[(pair["plain"][key], pair["traced"][key]) for pair in each] for each in found]
    middle = [sorted(each, key=lambda one: one[1] / one[0])[len(each) // 2] for each in pairs]
    return [one[0] for one in middle], [one[1] for one in middle]
