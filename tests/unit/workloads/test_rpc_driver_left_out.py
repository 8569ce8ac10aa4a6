"""contend without its driver for RPC, as `make demo` builds it: who needs it is told so before anything is brought up."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend import _native
from contend.workloads.generators import rpc, rpc_failures


@pytest.mark.parametrize("main", [rpc.main, rpc_failures.main])
def test_who_needs_it_is_told(
    main: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(_native, "RpcClient")
    place = ["--beds", str(tmp_path), "--broker", "one"]
    assert main(["prepare", *place]) != 0  # type: ignore[operator]
    said = capfd.readouterr().err
    assert "built without its driver for RPC" in said and "make setup" in said
    assert list(tmp_path.iterdir()) == []


def test_the_driver_itself_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Against a broker of the user's own, of which nothing is asked first."""
    monkeypatch.delattr(_native, "RpcClient")
    place = [
        "--beds",
        str(tmp_path),
        "--broker",
        "elsewhere",
        "--library",
        "native",
        "--out",
        str(tmp_path / "rpc.json"),
    ]
    assert rpc.main(["run", *place]) != 0
    assert "built without its driver for RPC" in capfd.readouterr().err


def test_what_was_brought_up_before_can_be_taken_down_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(_native, "RpcClient")
    assert rpc.main(["finish", "--beds", str(tmp_path), "--broker", "one"]) == 0
