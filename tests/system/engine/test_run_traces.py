"""Traces of a run's trials: where they are, what they hold, and that `finish` ends what `prepare` has started."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from contend.platforms import procfs
from contend.store.trace_summary import summarise
from support.command_line import Home, rows

SERVICE = """\
import threading, time
LOCK = threading.Lock()
def job():
    with LOCK:
        time.sleep(0.1)
def other():
    pass
def main():
    threads = [threading.Thread(target=job) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    other()
"""
WORKLOAD = f"""\
name: jobs
files: {{service.py: {{beside: jobs_service.py}}}}
prepare: sh -c 'sleep 300 & echo $! > "$1/daemon"' prepare {{work}}
run: {sys.executable} -c 'import service; service.main()'
directory: "{{work}}"
finish: sh -c 'kill $(cat "$1/daemon"); cp "$1/daemon" "$2"' finish {{work}} {{work}}/../../../../daemon
trace: {{include: "service:job"}}
metrics: {{wall: {{builtin: wall, unit: s, better: lower}}}}
dominant: lock
trial: 300ms
"""
SCENARIO = """\
study: compare
workload: jobs
variants: [{name: one}, {name: other}]
measure: {target: null, blocks: 2, pilot: 1, seed: 3, design: pairs}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.workload("jobs", WORKLOAD)
    (home.workloads / "jobs_service.py").write_text(SERVICE)
    (tmp_path / "jobs.yaml").write_text(SCENARIO)
    return home


def spans(trace: Path) -> set[str]:
    return {span.name for span in summarise(trace).spans}


def test_a_scenario_that_asks_for_traces_has_one_a_counted_trial(home: Home) -> None:
    home("run", "jobs.yaml", "--set", "trace=true").fine()
    run = home.the_run()
    counted = [row for row in rows(run) if row["phase"] == "counted"]
    assert len(counted) == 6
    assert [row["trace"] for row in counted] == [f"traces/{row['trial']:06d}" for row in counted]
    assert {path.name for path in (run / "traces").iterdir()} == {f"{row['trial']:06d}" for row in counted}
    for row in counted:
        (file,) = (run / row["trace"]).glob("*.ctrace")
        assert "service:job" in spans(file) and "service:other" not in spans(file)
        (lock,) = [lock for lock in summarise(file).locks if lock.name.endswith("LOCK")]
        assert lock.waits == 2
    daemon = home.path / "daemon"
    assert list(procfs.processes([int(daemon.read_text())])) == []
    home.nothing_left()


def test_a_hunt_in_a_run_knows_what_the_hardware_did(home: Home) -> None:
    home("run", "jobs.yaml", "--set", "trace=true", "--set", "measure.blocks=1").fine()
    told = home("hunt", str(home.the_run()), "--job", "service:job", "--cell", "one", "--json").fine().json()
    assert told["jobs"]["n"] == 3
    assert told["alibi"] is not None, told["no_alibi"]
    assert told["findings"] and told["findings"][0]["resource"].endswith("LOCK")


def test_patterns_of_the_scenario_count_before_the_workloads(home: Home) -> None:
    home("run", "jobs.yaml", "--set", "trace=service:other", "--set", "measure.blocks=1").fine()
    for trace in (home.the_run() / "traces").iterdir():
        assert "service:other" in spans(trace) and "service:job" not in spans(trace)


def test_nothing_is_recorded_unless_asked(home: Home) -> None:
    home("run", "jobs.yaml", "--set", "measure.blocks=1").fine()
    assert not (home.the_run() / "traces").exists()
    assert all("trace" not in row for row in rows(home.the_run()))
    assert json.loads((home.the_run() / "plan.json").read_text())["workloads"]
