"""Recordings of `contend watch`, of known content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contend.contention.watch import Watched
from contend.contention.watch_record import WatchRecord
from contend.probes.base import Coded, Cost
from contend.store.directory import RunDirectory
from support import blame_rows
from support.blame_rows import S


def coded(table: Mapping[str, Any]) -> Coded:
    """As the probe hands it out."""
    columns, names = {}, {}
    for column, values in table.items():
        if values.dtype == object:
            names[column] = sorted(set(values))
            columns[column] = np.array([names[column].index(v) for v in values], "u8")
        else:
            columns[column] = values
    return Coded(columns, names)


def recorded(place: Path, seconds: int, **changes: Any) -> tuple[RunDirectory, Watched]:
    """A watch of so many intervals, drained in two parts, the first sample at once as the probe takes it."""
    place.mkdir()
    run = RunDirectory(place)
    watched = Watched("blame", "cgroup", S, "BPF", "a note", last_ns=S // 2)
    record = WatchRecord(run, {"line": "contend watch", "scope": ""}, pytest.fail)
    record.begin(watched)
    first = [(S // 2 + 1000, "cpu", "/web.service", "/batch.service", 5)]
    rows = first + blame_rows.steady(seconds)
    for part in (rows[:16], rows[16:]):
        tables = blame_rows.tables(part)
        record.keep({name: coded(table) for name, table in tables.items()})
        for _ in watched.take(tables):
            pass
    watched.cost = Cost(cpu_ns=7, samples=seconds)
    watched.loading_ns = 3
    watched.namer.by_pid["7"] = "web:7"
    record.close(watched)
    return run, watched
