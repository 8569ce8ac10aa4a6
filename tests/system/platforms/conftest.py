"""What tests of platforms share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.own_runs import known_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory whose ledger is obeyed."""
    return known_run(tmp_path, monkeypatch)
