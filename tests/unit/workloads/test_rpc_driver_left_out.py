"""contend without its driver for RPC, as `make demo` builds it: who needs it is told so before anything is brought up."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend import _native
from contend.workloads.generators import rpc, rpc_failures
from contend.workloads.spec import Scalar
from support.generators import parameters_file


@pytest.mark.parametrize(("name", "main"), [("rpc", rpc.main), ("rpc-failures", rpc_failures.main)])
def test_who_needs_it_is_told(
    name: str,
    main: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delattr(_native, "RpcClient")
    assert main(["prepare", asked(name, tmp_path)]) != 0  # type: ignore[operator]
    said = capfd.readouterr().err
    assert "built without its driver for RPC" in said and "make setup" in said
    assert [file.name for file in tmp_path.iterdir()] == ["party"]


def asked(name: str, place: Path, **parameters: Scalar) -> str:
    work = place / "party"
    work.mkdir()
    return parameters_file(name, work, work, **parameters)


def test_the_driver_itself_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Against a broker of the user's own, of which nothing is asked first."""
    monkeypatch.delattr(_native, "RpcClient")
    assert rpc.elsewhere(["run", asked("rpc-elsewhere", tmp_path, library="native"), "1s"]) != 0
    assert "built without its driver for RPC" in capfd.readouterr().err


def test_what_was_brought_up_before_can_be_taken_down_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(_native, "RpcClient")
    assert rpc.main(["finish", asked("rpc", tmp_path)]) == 0
