"""What tests of ledgers share: a state directory of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.platforms import destroy, strays
from support.own_runs import known_run, own_state


@pytest.fixture
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)
    # Strays of whatever else is tested on this machine at the moment are not for these tests.
    monkeypatch.setattr(destroy, "survey", lambda run_id=None: strays.Survey())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return known_run(tmp_path, monkeypatch)
