"""One scenario at several times, nothing changed."""

from __future__ import annotations

import math
import statistics

from contend.stats.quantiles import t_quantile
from results.files import Data
from results.words import pct, table


def body(d: Data) -> str:
    """The runs, then what differs between them."""
    runs = [
        [
            number,
            run["began"][:16].replace("T", " "),
            run["blocks"],
            f"{run['flagged']} of {run['trials']}",
            f"{run['alarms']} of {run['controls']}",
        ]
        for number, run in enumerate(d["runs"], 1)
    ]
    head = ["run", "began (UTC)", "blocks", "trials flagged", "controls alarmed"]
    tables = [
        table(
            [title, of, "sd (log)", "two runs differ by up to"],
            [_row(*one) for one in values.items()],
            "llrr",
        )
        for title, of, values in (
            ("cell's level", "median of each run", d["levels"]),
            ("slowdown, within a run", "each run", d["slowdowns"]),
        )
    ]
    return "\n\n".join(
        [
            f"{len(runs)} runs of one scenario, nothing changed: `{d['scenario']}`. All trials are in"
            " [between-sessions.trials.parquet](between-sessions.trials.parquet).",
            table(head, runs, "llrrr"),
            *tables,
        ]
    )


def _row(name: str, values: list[float]) -> list[object]:
    spread = statistics.stdev(math.log(v) for v in values)
    return [name, ", ".join(f"{v:.4g}" for v in values), pct(spread, 1), pct(doubt(values))]


def doubt(values: list[float]) -> float:
    """Half-width, as a ratio less 1, of the 95 % interval of two runs' difference."""
    logs = [math.log(v) for v in values]
    return math.exp(t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) * math.sqrt(2)) - 1


def most(d: Data) -> float:
    """By how much two runs differ for no reason, of the cell that varies most."""
    return max(doubt(values) for values in (*d["levels"].values(), *d["slowdowns"].values()))
