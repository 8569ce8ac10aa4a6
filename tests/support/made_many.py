"""Many runs made of one: copies of a finished run, a day apart, whose measured values are multiplied by known levels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from contend.store.ledger import read_rows

KEPT = ("scenario.yaml", "plan.json", "findings.json", "report.html")


def began(day: int) -> str:
    return (datetime(2026, 1, 1, 8, tzinfo=UTC) + timedelta(days=day)).isoformat(timespec="milliseconds")


def copies(
    base: Path,
    place: Path,
    levels: Sequence[float],
    *,
    spread: float = 0.01,
    seed: int = 3,
    environments: Mapping[int, Mapping[str, Any]] | None = None,
    name: str = "run",
) -> list[Path]:
    """One directory for each level, `spread` (log, standard deviation) around it from run to run.

    environments: what the machine is said to be from that run on.
    """
    rng = np.random.default_rng(seed)
    rows = list(read_rows(base / "trials.ndjson"))
    environment = json.loads((base / "environment.json").read_text())
    made = []
    for number, level in enumerate(levels):
        environment |= (environments or {}).get(number, {})
        run = place / f"{name}-{number:04d}"
        run.mkdir(parents=True)
        for file in KEPT:
            if (base / file).exists():
                shutil.copyfile(base / file, run / file)
        (run / "environment.json").write_text(json.dumps(environment))
        factor = level * float(np.exp(rng.normal(0, spread)))
        (run / "trials.ndjson").write_text("".join(json.dumps(scaled(row, factor)) + "\n" for row in rows))
        events = ({"event": "run-start"}, {"event": "run-end", "stopped": "planned blocks done"})
        (run / "ledger.ndjson").write_text(
            "".join(json.dumps({"utc": began(number), **e}) + "\n" for e in events)
        )
        made.append(run)
    return made


def scaled(row: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """A trial's row of a host that takes `factor` times as long."""
    metrics = [
        {**m, "value": m["value"] * factor if m["better"] == "lower" else m["value"] / factor}
        for m in row["metrics"]
    ]
    return {**row, "metrics": metrics}
