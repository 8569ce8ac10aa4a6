"""When a server was ACTIVE, as boot-storm says and as nova-compute had saved it."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """By polling, and with notifications."""
    rows = [
        [name, *(f"{1e3 * d[key][of]:.0f}" for of in ("error_median_s", "error_p90_s", "error_max_s", "width_median_s")),
         f"{d[key]['inside']} of {d['servers']}"]
        for name, key in (("polling", "polling"), ("with nova's notifications", "with_notifications"))
    ]  # fmt: skip
    head = ["", "error, median, ms", "p90", "largest", "width of the interval, median, ms", "truth inside it"]
    return f"""\
Storms of {", ".join(map(str, d["sizes"]))} servers, {d["servers"]} in all. The truth is when nova-compute, traced, had saved its
instance as ACTIVE.

{table(head, rows, "lrrrrr")}

The interval held the moment for {d["polling"]["inside"]} of {d["servers"]} servers by polling, and for {d["with_notifications"]["inside"]} of
{d["servers"]} with notifications."""
