"""Where contend's own programs are found, and in which order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contend.errors import HostFailed
from contend.platforms import programs


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one contend-rpc beside a Python, one on PATH, and one for a variable to name."""
    for place in ("beside", "path", "named"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "contend-rpc").write_text("#!/bin/sh\n")
        (tmp_path / place / "contend-rpc").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("CONTEND_RPC", raising=False)
    return tmp_path


def test_a_variable_comes_first_then_this_python_then_path(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs.find("contend-rpc") == made / "beside" / "contend-rpc"
    (made / "beside" / "contend-rpc").chmod(0o644)
    assert programs.find("contend-rpc") == made / "path" / "contend-rpc"
    monkeypatch.setenv("CONTEND_RPC", str(made / "named" / "contend-rpc"))
    assert programs.installed("contend-rpc") == made / "named" / "contend-rpc"
    assert programs.is_installed("contend-rpc")


def test_where_there_is_none_the_next_step_is_named(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("beside", "path"):
        (made / place / "contend-rpc").unlink()
    assert not programs.is_installed("contend-rpc")
    with pytest.raises(HostFailed) as raised:
        programs.installed("contend-rpc")
    assert raised.value.hint == "pip install 'contend[rpc]'; in a checkout: make setup"
    monkeypatch.setenv("CONTEND_RPC", str(made / "none"))
    assert programs.installed("contend-rpc") == made / "none", "who names one is told of that one"
    assert not programs.is_installed("contend-rpc")


def test_a_program_is_where_its_wheel_has_put_it(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install --user` and `--target` install to directories that are on nobody's PATH."""
    for place in ("beside", "path"):
        (made / place / "contend-rpc").unlink()
    about = made / "lib/contend_rpc-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: contend-rpc\nVersion: 0.1.0\n")
    (about / "RECORD").write_text("../named/contend-rpc,,\ncontend_rpc-0.1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(str(made / "lib"))
    found = programs.find("contend-rpc")
    assert found is not None and found.samefile(made / "named/contend-rpc")
