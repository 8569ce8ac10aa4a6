"""Where contend's own programs are found, and in which order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contend import programs
from contend.errors import HostFailed


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one contend-fetch beside a Python, one on PATH, and one for a variable to name."""
    for place in ("beside", "path", "named"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "contend-fetch").write_text("#!/bin/sh\n")
        (tmp_path / place / "contend-fetch").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("CONTEND_FETCH", raising=False)
    return tmp_path


def test_a_variable_comes_first_then_this_python_then_path(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs.find("contend-fetch") == made / "beside" / "contend-fetch"
    (made / "beside" / "contend-fetch").chmod(0o644)
    assert programs.find("contend-fetch") == made / "path" / "contend-fetch"
    monkeypatch.setenv("CONTEND_FETCH", str(made / "named" / "contend-fetch"))
    assert programs.installed("contend-fetch") == made / "named" / "contend-fetch"
    assert programs.is_installed("contend-fetch")


def test_where_there_is_none_the_next_step_is_named(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("beside", "path"):
        (made / place / "contend-fetch").unlink()
    assert not programs.is_installed("contend-fetch")
    with pytest.raises(HostFailed) as raised:
        programs.installed("contend-fetch")
    assert raised.value.hint == "make setup, or pip install contend-fetch"
    monkeypatch.setenv("CONTEND_FETCH", str(made / "none"))
    assert programs.installed("contend-fetch") == made / "none", "who names one is told of that one"
    assert not programs.is_installed("contend-fetch")
