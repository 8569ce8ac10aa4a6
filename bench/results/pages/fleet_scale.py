"""What a fleet costs a host, and the machine that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from results.files import Data
from results.words import pct, table


def body(data: Mapping[str, Data]) -> str:
    """Both parts."""
    cost, scale = data["fleet-overhead"], data["fleet-scale"]
    ms = cost["per_trial_ms"]
    seen = "" if ms["low"] > 0 or ms["high"] < 0 else ": none to be seen"
    host = table(
        ["", ""],
        [
            [
                "added to the time between two trials",
                f"{ms['mean']:.1f} ms [{ms['low']:.1f}, {ms['high']:.1f}]{seen}",
            ],
            [
                f"CPU time of the worker, in runs of {cost['run_s']:.0f} s",
                f"{pct(cost['worker_cpu_share'], 2)} of a CPU",
            ],
            ["of the same worker, nothing being run by it", pct(cost["worker_cpu_share_idle"], 2)],
        ],
    )
    head = [
        "hosts", "rows", "rows/s", "scheduler", "coordinator", "memory of scheduler", "of coordinator", "all joined after",
        "over after",
    ]  # fmt: skip
    largest = scale["hosts"][-1]
    behind = (
        f"\n\n{largest['hosts']:,} hosts made more rows than this machine, which carries their workers too, could take at once:"
        f" they were in after {largest['wall_s']:.0f} s of {largest['least_s']:.0f}, {largest['missing']} missing,"
        f" {largest['doubled']} doubled."
        if largest["wall_s"] > 1.5 * largest["least_s"]
        else ""
    )
    return f"""\
Workers, scheduler, TLS, coordinator and run directory are real, and on one machine.

## On a host

{cost["rounds"]} rounds of {cost["blocks"]} blocks.

{host}

## At the machine that starts them

The workers make rows of a real one's size, {largest["bytes_per_row"] / 1e3:.1f} kB, instead of running trials. CPU in parts of
one CPU.

{table(head, map(_row, scale["hosts"]), "r" * len(head))}{behind}"""


def _row(of: Mapping[str, Any]) -> list[object]:
    return [
        f"{of['hosts']:,}",
        f"{of['rows']:,}, {of['missing']} missing, {of['doubled']} doubled",
        f"{of['rows_per_s']:.0f}",
        f"{pct(of['scheduler_cpu_share'])} ({pct(of['scheduler_idle_cpu_share'])} idle)",
        pct(of["coordinator_cpu_share"]),
        f"{of['scheduler_mib']:.0f} MiB",
        f"{of['coordinator_mib']:.0f} MiB",
        f"{of['joined_s']:.0f} s",
        f"{of['wall_s']:.0f} s",
    ]
