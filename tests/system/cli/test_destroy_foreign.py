"""`contend destroy` of what is not one's own: exit 1, what is named is listed, and printed escaped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from contend.platforms import procfs
from contend.store.ledger import Ledger
from support.command_line import Home, rows, wait_for
from support.kills import write_scenario

pytestmark = pytest.mark.one_of("strays")
TITLE = "\x1b]0;owned\x07"


def killed(home: Home, *options: str) -> Path:
    with home.start("run", write_scenario(home, "bare"), *options) as process:
        wait_for(lambda: any(rows(run) for run in home.run_directories()), "first trial")
        process.kill()
        process.communicate()
    assert home.left()
    return home.the_run()


def test_a_copy_is_listed_and_left_and_the_run_itself_goes(contend: Home, tmp_path: Path) -> None:
    run = killed(contend)
    copy = tmp_path / "copy" / run.name
    shutil.copytree(run, copy)
    with Ledger(copy / "ledger.ndjson") as ledger:
        ledger.intend("directory", f"/srv/contend-{TITLE}", run=run.name)
    before = [thing for thing in contend.left() if thing.startswith("cgroup")]
    assert before
    said = contend("destroy", str(copy)).error(1, "only read, not obeyed", "does not know this run")
    assert "left alone: directory /srv/contend-\\x1b]0;owned\\x07" in said.out
    assert "\x1b" not in said.out + said.err
    contend("run", "--resume", str(copy)).error(1, "not obeyed", "ledger.ndjson away")
    assert [thing for thing in contend.left() if thing.startswith("cgroup")] == before
    told = contend("destroy", str(copy), "--json")
    assert told.code == 1
    assert told.json()["problems"]
    contend("destroy", str(run)).fine()
    shutil.rmtree(copy)


@pytest.mark.needs(os.geteuid() == 0, "only root can give files away")
def test_root_in_a_users_directory_is_cleaned_up_after(contend: Home) -> None:
    """`sudo contend run` at home: the ledger is where only root writes, and the run directory holds a copy in the end."""
    contend.runs.mkdir()
    os.chown(contend.runs, 65534, -1)
    run = killed(contend)
    assert not (run / "ledger.ndjson").exists()
    said = contend("destroy", str(run)).fine()
    assert "removed cgroup " in said.out
    assert contend.left() == []
    assert (run / "ledger.ndjson").exists()
    contend("run", "--resume", str(run)).fine()
    events = [json.loads(line)["event"] for line in (run / "ledger.ndjson").read_text().splitlines()]
    assert events[-1] == "run-end"
    contend("report", str(run)).fine()


@pytest.mark.needs(os.geteuid() == 0, "only root can give files away")
def test_root_in_a_users_directory_resumes_at_once(contend: Home) -> None:
    """What the killed contend left is removed by the ledger that was kept, and the run goes on."""
    contend.runs.mkdir()
    os.chown(contend.runs, 65534, -1)
    run = killed(contend)
    contend("run", "--resume", str(run)).fine()
    assert contend.left() == []
    events = [json.loads(line)["event"] for line in (run / "ledger.ndjson").read_text().splitlines()]
    assert events.count("run-start") == 2
    assert events[-1] == "run-end"


def test_a_process_that_only_says_so_is_listed_and_left(contend: Home) -> None:
    run = killed(contend)
    shutil.rmtree(contend.state)  # else the run's own processes are what its ledger is for
    other = {**os.environ, procfs.MARKER: f"{run.name}x", procfs.MEMBER_MARKER: TITLE}
    with subprocess.Popen(["sleep", "60"], env=other, start_new_session=True) as sleeper:
        while procfs.marks(sleeper.pid) is None:
            time.sleep(0.01)
        try:
            said = contend("destroy", "--all").fine()
            assert f"left alone: process {sleeper.pid}: it carries the mark of run {run.name}x" in said.out
            assert "\x1b" not in said.out
            assert sleeper.poll() is None
        finally:
            sleeper.send_signal(signal.SIGKILL)
    assert contend.left() == []
