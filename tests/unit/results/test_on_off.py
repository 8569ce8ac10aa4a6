"""Neighbours that come and go, and go whole."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import on_off
from contend.platforms import procfs

FORKS = "(setsid sh -c 'echo $$ >{folder}/pid; kill -STOP $$' &); while :; do sleep 0.05; done"


def test_what_a_neighbour_forked_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has lost its parent, leads a session, and is stopped: as stress-ng's children are that leave amid a stop."""
    monkeypatch.setitem(on_off.NEIGHBOURS, "forks", FORKS)
    with on_off.beside("forks", tmp_path, 1):
        until = time.monotonic() + 10
        while not (pid := (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()) or not stopped(
            int(pid)
        ):
            assert time.monotonic() < until
            time.sleep(0.01)
    assert not stopped(int(pid))


def stopped(pid: int) -> bool:
    return any(one.state == "T" for one in procfs.processes([pid]))
