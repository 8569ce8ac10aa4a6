"""The alibis of a run's cells, and their words in reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema

from contend.contention.alibi.cells import cell_alibis, phase_alibis
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import CellAlibi, PhaseAlibi
from contend.contention.alibi.words import cell_line
from contend.environment import link_speeds
from contend.probes.series import SeriesWriter
from contend.report.terminal import render
from contend.store.directory import RunDirectory
from contend.studies.registry import study
from contend.text.shape import schema
from support.alibi_series import Host, Thread, coded
from support.report_samples import interference

SLOTS = 12


def recorded(directory: Path) -> list[dict[str, Any]]:
    """A run of two cells in turns, two seconds each: one burns on one thread, the other waits for itself."""
    host = Host(seconds=2.0 * SLOTS + 2, interval=0.1)
    rows = []
    for slot in range(SLOTS):
        start, end = 1 + 2.0 * slot, 2.8 + 2.0 * slot
        if slot % 2 == 0:
            burner = Thread("burner", 500 + slot, 1.0, 1.0)
            host.load(start - 0.05, end, cores=[0.25] * 4, threads=[burner])
        began, ended = host.span(start, end)
        cell = "sleeper" if slot % 2 else "burner"
        rows.append(
            {"cell": cell, "factors": {"variant": cell}, "phase": "pilot" if slot < 2 else "counted", "status": "ok",
             "started_ns": began, "ended_ns": ended}
        )  # fmt: skip
    writer = SeriesWriter(directory)
    writer.add({name: coded(table) for name, table in host.tables().items()})
    writer.close()
    return rows


def test_each_cell_has_the_verdict_of_its_trials(tmp_path: Path) -> None:
    rows = recorded(tmp_path)
    burner, sleeper = cell_alibis(rows, Recording.of_directory(tmp_path))
    assert (burner.cell, burner.verdict, burner.trials, burner.agreeing) == ("burner", "thread", 5, 5)
    # Not the number of one trial's process.
    assert burner.subject == "burner"
    assert (sleeper.verdict, sleeper.agreeing) == ("idle", 5)
    assert cell_line(burner) == "one thread was the limit (burner), in 5 of 5 trials"
    jsonschema.validate(burner.to_json(), schema(CellAlibi))


def share(text: str) -> float:
    """Of the phase, as the text has it."""
    found = re.search(r"(\d+) % of the phase", text)
    assert found is not None, text
    return int(found[1]) / 100


def test_the_run_and_its_phases_have_verdicts_of_their_own(tmp_path: Path) -> None:
    rows = recorded(tmp_path)
    # The pilot is the burner's alone; in the counted trials a burner takes turns with the sleeper, a new one each time.
    rows = [row for n, row in enumerate(rows) if n != 1]
    recording = Recording.of_directory(tmp_path)
    run, pilot, counted = phase_alibis(rows, recording)
    assert [a.phase for a in (run, pilot, counted)] == ["run", "pilot", "counted"]
    assert [a.verdict for a in (run, pilot, counted)] == ["thread", "thread", "thread"]
    assert counted.subject == "burner (5 processes in turn)" and 0.3 < share(counted.text) < 0.6
    assert pilot.subject == "burner (pid 500)"
    assert run.start_ns <= pilot.start_ns < pilot.end_ns <= counted.start_ns < counted.end_ns <= run.end_ns
    jsonschema.validate(run.to_json(), schema(PhaseAlibi))
    assert phase_alibis([], recording) == ()
    assert phase_alibis(rows, Recording.of_tables({})) == ()


def test_trials_between_two_samples_have_none(tmp_path: Path) -> None:
    rows = recorded(tmp_path)
    for row in rows:
        row["ended_ns"] = row["started_ns"] + 150_000_000
    assert cell_alibis(rows, Recording.of_directory(tmp_path)) == ()
    assert cell_alibis(rows, Recording.of_directory(tmp_path / "nothing")) == ()


def test_reports_tell_it_where_it_is_no_noise(tmp_path: Path) -> None:
    import dataclasses

    report = interference()
    alibis = cell_alibis(recorded(tmp_path), Recording.of_directory(tmp_path))
    report = dataclasses.replace(report, analysis=dataclasses.replace(report.analysis, alibis=alibis))
    assert "Hardware meanwhile" not in render(report, width=100)  # its findings say more
    assert "burner: one thread was the limit" in render(report, width=100, verbose=True)
    compare = dataclasses.replace(
        report,
        analysis=dataclasses.replace(
            report.analysis, study="compare", cells=(), controls=(), layout=study("compare").layout(None)
        ),
    )
    assert "sleeper: nothing at its limit, in 5 of 5 trials" in render(compare, width=100)


def test_link_speeds_come_from_hardware_alone(tmp_path: Path) -> None:
    for name, speed, hardware in (("eth0", "10000", True), ("veth1", "10000", False), ("eth1", "-1", True)):
        (tmp_path / name / ("device" if hardware else "")).mkdir(parents=True)
        (tmp_path / name / "speed").write_text(f"{speed}\n", encoding="ascii")
    assert link_speeds(tmp_path) == {"eth0": 10_000}


def test_a_run_knows_its_links(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "made", "20260101-000000")
    run.write_json("environment.json", {"links_mbit_per_s": {"eth0": 1000}})
    recorded(run.series)
    assert Recording.of_run(run).link_bytes_per_s == {"eth0": 125e6}
