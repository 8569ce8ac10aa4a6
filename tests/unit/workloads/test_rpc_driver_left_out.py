"""contend without contend-rpc, its driver for RPC, as `make demo` sets it up: who needs it is told so before anything is
brought up, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.engine import doctor
from contend.platforms import programs
from contend.workloads import install
from contend.workloads.generators import rpc, rpc_failures
from contend.workloads.load import load
from contend.workloads.spec import Scalar
from support.generators import parameters_file


@pytest.fixture(autouse=True)
def left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs.find
    monkeypatch.setattr(programs, "find", lambda name: None if name == "contend-rpc" else found(name))


@pytest.mark.parametrize(("name", "main"), [("rpc", rpc.main), ("rpc-failures", rpc_failures.main)])
def test_who_needs_it_is_told(
    name: str, main: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", asked(name, tmp_path)]) == 2  # type: ignore[operator]
    said = capfd.readouterr().err
    assert "contend-rpc" in said and "is not installed" in said
    assert "make setup" in said
    assert [file.name for file in tmp_path.iterdir()] == ["party"]


def asked(name: str, place: Path, **parameters: Scalar) -> str:
    work = place / "party"
    work.mkdir()
    return parameters_file(name, work, work, **parameters)


def test_the_driver_itself_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Against a broker of the user's own, of which nothing is asked first."""
    assert rpc.elsewhere(["run", asked("rpc-elsewhere", tmp_path, library="native"), "1s"]) == 2
    assert "is not installed" in capfd.readouterr().err


def test_what_was_brought_up_before_can_be_taken_down_without(tmp_path: Path) -> None:
    assert rpc.main(["finish", asked("rpc", tmp_path)]) == 0


def test_a_variable_that_names_no_program_is_told_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "find", lambda name: tmp_path / "none")
    assert rpc.main(["prepare", asked("rpc", tmp_path)]) == 2
    assert f"{tmp_path / 'none'} is no program" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["rpc", "rpc-failures", "rpc-serialising"])
def test_workloads_over_a_broker_of_the_runs_own_miss_it(name: str) -> None:
    workload = load(name)
    assert "contend-rpc" in install.missing(workload)
    assert install.hint([workload]).startswith("pip install 'contend[rpc]'")


def test_over_a_broker_elsewhere_only_the_driver_misses_it() -> None:
    workload = load("rpc-elsewhere")
    assert "contend-rpc" not in install.missing(workload)
    assert install.needed(workload, {"library": "oslo"}) == ()
    for library in ("native", "bare"):
        assert install.needed(workload, {"library": library}) == ("contend-rpc",)


def test_doctor_tells_what_to_do() -> None:
    check = next(one for one in doctor.checks(containers=False) if one.name == "contend-rpc")
    assert (check.works, check.detail) == (False, "contend-rpc is not installed")
    assert "make setup" in check.fix
