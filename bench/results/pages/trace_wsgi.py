"""What tracing costs a WSGI service."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from results.files import Data
from results.pages.trace_service import less
from results.words import interval, ratio, table

WHAT = {
    "rate": "requests a second",
    "cpu_us": "CPU µs of the server a request",
    "switches": "switches of its threads a request",
}


def body(data: Mapping[str, Data]) -> str:
    """In one process, series by series, the newest first; then two processes side by side."""
    within, beside = data["trace-within"], data["trace-wsgi"]
    parts = [
        """\
Flask and SQLAlchemy on SQLite, with a lock and a queue; wrk with 8 connections. A request makes 100 to 140 events. [Keystone](trace-service.md),
a real service, is measured apart."""
    ]
    for of in within["series"]:
        rows = [
            [
                r["server"], f"{r['off_per_s']:,.0f}, {r['on_per_s']:,.0f}", interval(r["throughput"], 4),
                interval(r["cpu"], 4), interval(r["switches"], 4),
            ]
            for r in of["printed"]
        ]  # fmt: skip
        head = ["", "requests a second, off and on", "ratio", "CPU µs a request, ratio", "switches, ratio"]
        parts += [
            f"## One process that records and does not, in turn, at commit {of['commit']}",
            f"{of['starts']} starts of {of['rounds']} rounds; intervals over starts; *off* is patched, with nothing on record."
            " Medians of starts stand beside ratios of the same start, so they may point another way. Noted:"
            f" {of['noted']}.",
            table(head, rows, "lrrrr"),
        ]
    parts.append(f"## Two processes, at commit {beside['made']['commit']}")
    for server, found in beside["results"].items():
        parts += [f"{server}, {len(found)} blocks:", of_server(found)]
    return "\n\n".join(parts)


def of_server(found: list[list[Mapping[str, Any]]]) -> str:
    """By block its pairs."""
    keys = [key for key in WHAT if key in found[0][0]["plain"]]
    return table(["", "plain", "traced", "ratio, 95 % interval"], [_row(found, key) for key in keys], "lrrr")


def _row(found: list[list[Mapping[str, Any]]], key: str) -> list[object]:
    # Of a block the median pair: one that was disturbed after all does not count.
    pairs = [[(pair["plain"][key], pair["traced"][key]) for pair in each] for each in found]
    middle = [sorted(each, key=lambda one: one[1] / one[0])[len(each) // 2] for each in pairs]
    plain, traced = ([one[at] for one in middle] for at in (0, 1))
    return [
        WHAT[key],
        f"{statistics.median(plain):,.4g}",
        f"{statistics.median(traced):,.4g}",
        interval(ratio(plain, traced), 4),
    ]


def lost(d: Data, server: str) -> str:
    """Throughput that recording takes, of the newest series."""
    (r,) = [row["throughput"] for row in d["series"][0]["printed"] if row["server"] == server]
    return less(r)


def losses(d: Data) -> str:
    """From the server that loses least to the one that loses most, of the newest series; none is below nothing."""
    of = [max(0.0, 100 * (1 - row["throughput"]["value"])) for row in d["series"][0]["printed"]]
    return f"{min(of):.0f} to {max(of):.0f} %"
