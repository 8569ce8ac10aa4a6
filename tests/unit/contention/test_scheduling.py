"""Scheduler histograms of a run, by cell: a sample belongs to the trial that went on in its interval, and to no other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from contend.contention.scheduling import CellSchedule, cell_schedules
from contend.document import Layout
from contend.probes.base import Coded
from contend.probes.series import SeriesWriter
from contend.report.schedule_plots import schedule_plots
from contend.report.scheduling_words import waits_headers, waits_rows
from contend.store.cells import PlannedCell
from contend.studies.overhead.words import cpus_label
from contend.text.shape import schema
from support.planned import planned_of_rows

MS = 1_000_000
BARE, BOX = "/contend.run/victim-bare", "/pod/box"


def row(trial: int, cell: str, began_ms: int, ended_ms: int, **changes: Any) -> dict[str, Any]:
    platform, _, provisioning = cell.partition(" ")
    group = BARE if platform.startswith("bare") else BOX
    return {
        "trial": trial,
        "cell": f"app|{cell}",
        "factors": {
            "victim": "app",
            "platform": platform,
            "provisioning": provisioning or "none",
            "size": cpus_label(1),
            "cpus": "1",
        },
        "phase": "counted",
        "status": "ok",
        "started_ns": began_ms * MS,
        "ended_ns": ended_ms * MS,
        "honoured": {"groups": [f"/sys/fs/cgroup/unified{group}", f"/sys/fs/cgroup/cpu{group}"]},
        **changes,
    }


def write(place: Path, samples: list[tuple[int, str, int, dict[int, int]]]) -> Path:
    """(ms of the sample, subject, ns on a CPU, {bucket of the run queue: count}): as the probe writes them."""
    names = list(dict.fromkeys(subject for _, subject, _, _ in samples))

    def column(values: list[int]) -> np.ndarray[Any, Any]:
        return np.array(values, dtype=np.int64)

    def coded(rows: list[tuple[int, str]], **columns: list[int]) -> Coded:
        subjects = column([names.index(subject) for _, subject in rows])
        made = {"t_ns": column([at * MS for at, _ in rows]), "subject": subjects}
        kinds = {"kind": column([0] * len(rows))} if "bucket_ns" in columns else {}
        values = {key: column(value) for key, value in columns.items()}
        return Coded(
            {**made, **kinds, **values}, {"subject": names} | ({"kind": ["run_queue"]} if kinds else {})
        )

    total = [(at, subject) for at, subject, _, _ in samples]
    each = [(at, subject, edge, n) for at, subject, _, of in samples for edge, n in of.items()]
    writer = SeriesWriter(place)
    writer.add(
        {
            "sched_total": coded(
                total,
                on_cpu_ns=[ns for _, _, ns, _ in samples],
                off_cpu_ns=[0] * len(total),
                run_queue_ns=[sum(e * n for e, n in of.items()) for _, _, _, of in samples],
                switches=[sum(of.values()) for _, _, _, of in samples],
                migrations=[1] * len(total),
            ),
            "sched_hist": coded(
                [(at, subject) for at, subject, _, _ in each],
                bucket_ns=[edge for _, _, edge, _ in each],
                count=[n for _, _, _, n in each],
            ),
        }
    )
    writer.close()
    return place


def test_a_sample_is_of_the_trial_in_its_interval(tmp_path: Path) -> None:
    series = write(
        tmp_path / "series",
        [
            (100, BARE, 7 * MS, {1024: 70}),  # before the first trial
            (200, BARE, 10 * MS, {1024: 10}),
            (300, BARE, 5 * MS, {1024: 5}),  # it ended at 250
            (400, BARE, 99 * MS, {1024: 99}),  # nobody's
            (500, BOX, 20 * MS, {1024: 1, MS: 3}),
            (600, BOX, 20 * MS, {MS: 4}),
            (600, "/pod/box/inner", 2 * MS, {2 * MS: 1}),
            (700, BARE, 30 * MS, {2048: 30}),
            (800, BARE, 4 * MS, {2048: 4}),  # two trials of the cell share it
            (900, BARE, 4 * MS, {2048: 4}),
            (900, "/", 500 * MS, {128: 5000}),
            (900, "/pod/boxes", 500 * MS, {128: 5000}),
        ],
    )
    rows = [
        row(1, "bare", 110, 250),
        row(2, "container pinned", 420, 590),
        row(3, "bare", 610, 720),
        row(4, "bare", 750, 880),
        row(5, "bare", 910, 990, status="failed"),
        row(0, "bare", 50, 99, phase="pilot"),
    ]
    bare, box = cell_schedules(rows, series)
    assert (bare.cell, bare.trials, bare.window_ns) == ("app|bare", 3, 380 * MS)
    assert bare.counts == {"run_queue": {1024: 15, 2048: 38}}
    assert (bare.on_cpu_ns, bare.switches, bare.migrations) == (53 * MS, 53, 5)
    assert (box.cell, box.on_cpu_ns) == ("app|container pinned", 42 * MS)
    assert box.counts == {"run_queue": {1024: 1, MS: 7, 2 * MS: 1}}
    assert box.run_queue_ns == 1024 + 9 * MS
    assert box.a_second(box.migrations) == pytest.approx(3 / 0.17)
    for of in (bare, box):
        jsonschema.validate(of.to_json(), schema(CellSchedule))


def test_without_histograms_or_groups_there_are_none(tmp_path: Path) -> None:
    rows = [row(1, "bare", 110, 250)]
    assert cell_schedules(rows, tmp_path) == ()
    series = write(tmp_path / "series", [(200, BARE, MS, {1024: 10})])
    assert cell_schedules([rows[0] | {"honoured": {}}], series) == ()
    assert cell_schedules([rows[0] | {"honoured": {"groups": ["/sys/fs/cgroup/cpu/other"]}}], series) == ()


def test_a_quantile_is_within_a_bucket_of_the_truth() -> None:
    rng = np.random.default_rng(5)
    waits = np.exp(rng.normal(12, 2, 20_000))
    edges = np.array([0, *(128 * 2 ** (n / 4) for n in range(100))]).astype(np.int64)
    found = edges[np.searchsorted(edges, waits, side="right") - 1]
    counts = {int(edge): int(n) for edge, n in zip(*np.unique(found, return_counts=True), strict=True)}
    of = CellSchedule("app", {}, 1, 1, 1, 1, 1, 0, {"run_queue": counts})
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        told = of.quantile_ns("run_queue", share)
        assert told == pytest.approx(np.quantile(waits, share), rel=0.1)


class _Analysis:
    layout = Layout()

    def __init__(self, schedules: tuple[CellSchedule, ...], planned: Mapping[str, PlannedCell]) -> None:
        self.schedules, self.planned = schedules, planned

    def is_control(self, cell: str) -> bool:
        return self.planned[cell].control


def test_rows_begin_with_the_bare_host_and_leave_controls_out(tmp_path: Path) -> None:
    samples = [
        (200, BARE, MS, {0: 9, MS: 3, 3 * MS: 1}),
        (400, BOX, MS, {MS: 10}),
        (600, BARE, MS, {0: 10}),
    ]
    rows = [
        row(1, "container pinned", 310, 390),
        row(2, "bare", 110, 190),
        row(3, "bare (control)", 510, 590),
    ]
    rows[2]["factors"]["platform"], rows[2]["factors"]["provisioning"] = "bare (control)", "none"
    found = cell_schedules(rows, write(tmp_path / "series", samples))
    analysis: Any = _Analysis(found, planned_of_rows(rows))
    shown = waits_rows(analysis)
    assert [line[1] for line in shown] == ["bare, 1 CPU", "container pinned, 1 CPU"]
    assert shown[0][2:4] == ("< 0.13 µs", "3.27 ms")
    assert shown[1][2:] == ("1.09 ms", "1.09 ms", "-", "-", "12")
    assert all(len(line) == len(waits_headers()) for line in shown)
    (plot,) = schedule_plots(analysis)
    bars = [value for value in plot.spec["data"]["values"] if "foot" in value]
    assert plot.table == tuple(line[1:] for line in shown)
    assert [bar["say"].partition(":")[2] for bar in bars] == [
        " 50.0% of the waiting in waits of 524 µs to 1.05 ms",
        " 50.0% of the waiting in waits of 2.1 ms to 4.19 ms",
        " 100.0% of the waiting in waits of 524 µs to 1.05 ms",
    ]
