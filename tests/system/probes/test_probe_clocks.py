"""A clock of the day that is set while something is recorded, and clocks that are not the host's: no figure changes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from contend.errors import HostFailed
from contend.probes.client import ProbeProcess, program
from support.command_line import Home, check_files
from support.prerequisites import need
from support.processes import Recording, Worker

STEPPING = Path(__file__).parents[2] / "support" / "stepping.c"
BURN = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(0.7)\nraise SystemExit(7)"


@pytest.fixture
def steps(tmp_path: Path) -> dict[str, str | None]:
    """An environment in which the clock of the day jumps, for who is started in it and nobody else."""
    need(shutil.which("cc"), "a C compiler")
    library = tmp_path / "stepping.so"
    subprocess.run(("cc", "-shared", "-fPIC", "-O1", "-o", library, STEPPING), check=True)
    environment: dict[str, str | None] = {"LD_PRELOAD": str(library)}
    code = "import time\nfor _ in range(12): print(time.time()); time.sleep(0.1)"
    told = subprocess.run(
        (sys.executable, "-S", "-c", code), env=environment, capture_output=True, text=True, check=True
    )
    times = [float(line) for line in told.stdout.split()]
    assert max(times) - min(times) > 86_400, "it jumps"
    return environment


def test_a_clock_that_is_set_changes_no_figure_of_a_sample(
    contend: Home, steps: dict[str, str | None]
) -> None:
    before_ns = time.monotonic_ns()
    asked = ("sample", "-i", "50ms", "-o", "out", "--", sys.executable, "-S", "-c", BURN)
    said = contend(*asked, env=steps)
    length_ns = time.monotonic_ns() - before_ns
    assert said.code == 7, said
    said.no_traceback()
    directory = contend.path / "out"
    check_files(directory)
    told = json.loads((directory / "sample.json").read_text(encoding="utf-8"))
    assert 1.2e9 <= told["exit"]["wall_ns"] <= length_ns
    for table in ("host", "process_use"):
        query = f"select min(t_ns) as low, max(t_ns) as high from {table}"
        row = contend("sql", "out", "--json", query).fine().json()[0]
        assert before_ns <= row["low"] < row["high"] <= before_ns + length_ns, table
    query = "select t_ns, interval_ns from process_use order by t_ns"
    rows = contend("sql", "out", "--json", query).fine().json()
    assert all(0 <= row["interval_ns"] <= length_ns for row in rows)
    used = "select sum(user_ns + system_ns) as used from process_use where interval_ns > 0 and name like 'python%'"
    assert contend("sql", "out", "--json", used).fine().json()[0]["used"] >= 0.45e9
    # No sample was skipped or taken twice because of a jump: they are 50 ms apart, or late.
    times = "select t_ns - lateness_ns as due from host order by t_ns"
    dues = np.array([row["due"] for row in contend("sql", "out", "--json", times).fine().json()[:-1]])
    grid = np.abs((np.diff(dues) + 25_000_000) % 50_000_000 - 25_000_000)
    # But for one where somebody else had the CPU between two readings of the clock, which is in two differences.
    assert len(dues) > 5 and np.mean(grid < 1_000_000) > 0.7


def test_a_clock_that_is_set_changes_no_figure_of_a_watch(
    contend: Home, steps: dict[str, str | None]
) -> None:
    began_ns = time.monotonic_ns()
    said = contend("watch", "--by", "process", "--for", "1s", "-i", "100ms", "--json", env=steps).fine()
    length_ns = time.monotonic_ns() - began_ns
    assert 0.8e9 <= said.json()["length_ns"] <= length_ns


@pytest.fixture(params=[700_000, None], ids=["ahead", "behind"])
def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """The probe is in a time namespace, as in a container that was moved here: seconds its clocks are ahead."""
    need(os.geteuid() == 0 and Path("/proc/self/timens_offsets").exists(), "time namespaces need root")
    up_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    need(up_s > 200, "a host that is up for some minutes: its clocks cannot be set behind zero")
    ahead: int = request.param or -min(5000, up_s - 100)
    words = ("unshare", "--time", "--fork", "--kill-child", f"--monotonic={ahead}", f"--boottime={ahead}")
    wrapper = tmp_path / "contend-probe"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join((*words, str(program())))} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    need(subprocess.run((wrapper, "check"), check=False).returncode == 0, "unshare --time of util-linux")
    monkeypatch.setenv("CONTEND_PROBE", str(wrapper))
    yield ahead


def test_in_another_time_what_was_there_counts_from_now_and_what_begins_from_its_begin(
    source: str, elsewhere: int
) -> None:
    with Worker() as old:
        before = old.do("burn 0.3")
        recording = Recording(source)
        recording.settle()
        with Worker() as new:
            own = {old.pid: old.do("burn 0.2"), new.pid: new.do("burn 0.2")}
            rows = recording.finish()
        own[old.pid]["cpu_ns"] -= before["cpu_ns"]
        for pid, figures in own.items():
            assert rows.did(pid)["cpu_ns"] == pytest.approx(figures["cpu_ns"], rel=0.02, abs=5e6)
        began = rows.of(new.pid, "process")["start_ns"][0]
        shown_ns = (time.clock_gettime(time.CLOCK_BOOTTIME) + elsewhere) * 1e9
        assert shown_ns - 60e9 < int(began) < shown_ns
        times = rows.tables["process_use"]["t_ns"]
        assert abs(int(times[-1]) / 1e9 - elsewhere - time.monotonic()) < 60
        assert np.all(np.diff(times.astype(np.int64)) >= 0)


def test_in_another_time_processes_that_wait_have_their_names(elsewhere: int) -> None:
    with Worker() as one, Worker() as other:
        for worker in (one, other):
            os.sched_setaffinity(worker.pid, {max(os.sched_getaffinity(0))})
        try:
            probe = ProbeProcess({"interval_ms": 100, "blame": {"by": "process"}})
        except HostFailed as error:
            need(False, f"no blame here: {error.message}")
            raise
        one.start("burn 0.4")
        other.do("burn 0.4")
        one.done()
        table = probe.stop().tables["blame"]
    names = {name.rpartition(":")[2]: name for name in {*table["victim"], *table["culprit"]}}
    assert [names[str(pid)].startswith("python") for pid in (one.pid, other.pid)] == [True, True]
