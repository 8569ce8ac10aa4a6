"""Of one process and all its descendants: each is run by `test_kin.py` in a process that has no others."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contend.platforms import kin, procfs
from contend.store import state
from support.own_runs import own_state

RUN = "kin-run"


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)
    state.private("processes")


def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_file_is_this_users_alone_and_goes_when_nothing_lives() -> None:
    watched = kin.Kin(RUN)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        watched.waits_for(child.pid)
        file = kin._file(RUN)
        assert file.stat().st_mode & 0o777 == 0o600
        assert child.pid in {pid for pid, *_ in kin.read(RUN)}
        child.kill()
    watched.close()
    watched.close()
    assert not file.exists()


def test_orphans_that_have_ended_are_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kin, "_ZOMBIE_S", 0.1)
    watched = kin.Kin(RUN)
    try:
        script = "setsid sh -c 'sleep 0.2' >/dev/null 2>&1 & exit"
        subprocess.run(["sh", "-c", script], check=True, start_new_session=True)

        def mine() -> set[int]:
            children = kin._children(os.getpid())
            return {pid for pid in children if (one := procfs.stat(pid)) and one.session != os.getsid(0)}

        until(mine)
        until(lambda: not mine())
    finally:
        watched.close()


def test_what_was_let_go_is_the_users_with_all_that_comes_of_it() -> None:
    watched = kin.Kin(RUN)
    script = "sleep 60 & echo $!; read line; (setsid sleep 60 & echo $!); exec sleep 60"
    with subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as service:
        try:
            assert service.stdin is not None
            assert service.stdout is not None
            before = int(service.stdout.readline())
            watched.waits_for(service.pid)
            until(lambda: before in {pid for pid, *_ in kin.read(RUN)})
            watched.let_go([service.pid])
            print("go on", file=service.stdin, flush=True)
            after = int(service.stdout.readline())
            watched.look()
            service.kill()
            service.wait()
            time.sleep(0.3)
            assert kin.read(RUN) == []
            assert kin.Recorded(RUN).find() == set()
        finally:
            for pid in (service.pid, before, after):
                procfs.send(pid, signal.SIGKILL)
            watched.close()
