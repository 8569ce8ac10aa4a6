"""What tests of platforms share."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.store import state
from support.own_runs import own_state


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory whose ledger is obeyed."""
    own_state(tmp_path, monkeypatch)
    directory = tmp_path / "run"
    directory.mkdir()
    state.register("run", directory)
    return directory
