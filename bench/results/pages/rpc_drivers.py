"""What a call costs by contend's own driver, beside oslo.messaging's."""

from __future__ import annotations

import statistics

from results.files import Data
from results.words import interval, table

WORDS = {
    "cpu_client": "CPU time of the caller a call",
    "cpu_service": "of the service",
    "cpu_broker": "of the broker",
    "cpu_ends": "of both ends",
    "cpu_all": "of all three",
    "rate": "calls a second",
}


def body(d: Data) -> str:
    """Costs of a call by oslo.messaging, in costs of one by the native driver; and both rates."""
    rates = {name: [block[name]["rate"] for block in d["blocks"]] for name in ("oslo", "native")}
    rows = [
        [WORDS.get(key, key), interval(one, 3 if one["value"] < 1 else 1)] for key, one in d["ratios"].items()
    ]
    return f"""\
{len(d["blocks"])} blocks, one turn of each driver in random order; {d["callers"]} callers, payload {d["payload"]}, RabbitMQ
{d["broker"]}. Medians: {statistics.median(rates["oslo"]):,.0f} calls a second by oslo.messaging,
{statistics.median(rates["native"]):,.0f} by the native driver. Ratios are oslo.messaging's to the native driver's, within
blocks.

{table(["", "ratio, 95 % interval"], rows, "lr")}"""


def cpu_s(d: Data, library: str) -> float:
    """CPU time of both ends for a call, median of the blocks."""
    return statistics.median(float(block[library]["cpu_s_per_call"]["ends"]) for block in d["blocks"])
