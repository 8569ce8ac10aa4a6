"""Run directories whose ledgers are obeyed: this user's state directory points at them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.platforms import kin, procfs
from contend.store import claims, state
from contend.store.ledger import parse


def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory and a place for claims that no other test sees."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(claims, "home", lambda: tmp_path / "claims")
    monkeypatch.setattr(claims, "_directories", lambda: {tmp_path / "claims"})


def own(directory: Path) -> Path:
    """Register a run directory, under the run id that its ledger's rows have, or its own name. The directory."""
    ledger = directory / state.LEDGER
    rows, _ = parse(ledger.read_bytes()) if ledger.exists() else ([], [])
    runs = {str(row["run"]) for row in rows if row.get("run")}
    assert len(runs) <= 1, runs
    state.register(runs.pop() if runs else directory.name, directory)
    return directory


def known_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of a run whose ledger is obeyed."""
    own_state(tmp_path, monkeypatch)
    directory = tmp_path / "run"
    directory.mkdir()
    state.register("run", directory)
    return directory


def record_process(run_id: str, pid: int, **changed: object) -> None:
    """Write a process down as a run's, as a contend without control groups does."""
    found = procfs.stat(pid)
    assert found is not None
    start = changed.get("start_ticks", found.start_ticks)
    own = found.session if found.session != os.getsid(0) else 0
    state.private("processes")
    kin._file(run_id).write_text(f"{changed.get('boot_id', procfs.boot_id())}\n{pid} {start} {own}\n")
