"""The tables of a run's traces: read when they are asked for, each row with its trial and cell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contend.contention import run_events
from contend.report.traced_cells import traced_cells, traced_plots
from contend.store.directory import RunDirectory
from contend.store.queries import query

PROGRAM = """
import sys
from contend import trace
trace.start(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with trace.job("boot"), trace.span("build"): pass
trace.stop()
"""
CELLS = ["plain", "mended"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two trials of each of two cells, with 1, 2, 3 and 4 jobs, and one whose trace is gone."""
    place = tmp_path_factory.mktemp("run")
    lines = []
    # Trials are not run in the order of the plan.
    for trial, cell in enumerate([*reversed(CELLS), *CELLS, "plain"]):
        row = {
            "trial": trial,
            "cell": cell,
            "phase": "counted",
            "status": "ok",
            "trace": f"traces/{trial:06d}",
        }
        lines.append(
            json.dumps({**row, "block": 0, "factors": {}, "metrics": [], "evidence": [], "flags": []})
        )
        if trial < 4:
            command = [sys.executable, "-c", PROGRAM, str(place / row["trace"]), str(trial + 1)]  # type: ignore[operator]
            subprocess.run(command, check=True)
    (place / "trials.ndjson").write_text("\n".join(lines) + "\n")
    plan = {"schema_version": 1, "cells": [{"id": cell} for cell in CELLS]}
    plan |= {"seed": 1, "design": "pairs", "workloads": {}, "trials": []}
    for cell in plan["cells"]:
        cell |= {"factors": {}, "baseline": "", "control": False}
    (place / "plan.json").write_text(json.dumps(plan))
    (place / "environment.json").write_text("{}")
    (place / "series").mkdir()
    return RunDirectory.open(str(place))


def test_rows_of_all_trials_have_their_trial_and_cell(run: RunDirectory) -> None:
    sql = "select trial, cell, count(*) from jobs join trials using (trial, cell) group by all order by trial"
    _, rows = query(run, sql, run_events.tables(run, sql))
    assert rows == [(0, "mended", 1), (1, "plain", 2), (2, "plain", 3), (3, "mended", 4)]
    sql = "select sum(ns) = (select sum(end_ns - begin_ns) from jobs) from parts"
    assert query(run, sql, run_events.tables(run, sql))[1] == [(True,)]


def test_traces_are_read_for_a_query_that_names_their_tables_only(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a trace was read")

    monkeypatch.setattr(run_events, "read", refuse)
    assert run_events.tables(run, "select count(*) from trials") == {}
    with pytest.raises(AssertionError):
        run_events.tables(run, "select count(*) from jobs")


def test_the_page_has_a_bar_a_cell_in_the_order_of_the_plan(run: RunDirectory, tmp_path: Path) -> None:
    cells = traced_cells(run.path)
    assert [(batch.name, len(batch.traces), len(batch.whole.jobs)) for batch in cells] == [
        ("plain", 2, 5),
        ("mended", 2, 5),
    ]
    (plot,) = traced_plots(cells)
    assert [row[0] for row in plot.table] == CELLS
    assert traced_cells(tmp_path) == () and traced_plots(cells[:1]) == []
