"""Services that run already, as victims."""

from __future__ import annotations

from results.files import Data
from results.words import table

ROUTINE = " LOG: "
"""PostgreSQL's word for what is no warning."""


def body(d: Data) -> str:
    """What each run said, and whether the service was left as it was."""
    parts = [
        f"nginx with a file of 4 KB is asked {d['rate']} times a second; PostgreSQL serves four clients of pgbench at {d['rate']}"
        " transactions a second, and is followed. Both were started as their users do, and not by contend. The guard counts"
        " them and the clients among others; here they may wait for more of the CPU time that they want than the fifth that it"
        " allows by default, which one neighbour takes on two CPUs. The process that asks is on the same host, before others"
        " (SCHED_FIFO)."
    ]
    for row in d["rows"]:
        complaints = [line for line in row["logged"].splitlines() if ROUTINE not in line]
        left = (
            "the same processes, with no complaint in its log"
            if row["same"] and not complaints
            else "not as it was"
        )
        cells = [
            [neighbour, metric, shown(value, low, high), verdict]
            for neighbour, metric, value, low, high, verdict in row["cells"]
        ]
        findings = "\n".join(f"- {sentence}" for sentence in row["findings"]) or "- No finding."
        complained = f" It said: {row['complained']}" if row["complained"] else ""
        parts.append(f"""\
## {row["service"]}

`{row["command"]}`

{row["took_s"]:.0f} s, {row["blocks"]} blocks, exit code {row["code"]}; {row["alarms"]} of {row["controls"]} controls alarmed, {row["failed"]} trials
failed. Afterwards the service was {left}.{complained}

{row["answer"]}

{table(["beside", "figure", "slowdown", "verdict"], cells, "llrl")}

{findings}""")
    return "\n\n".join(parts) + "\n"


def shown(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "none"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
