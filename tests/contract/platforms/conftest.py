"""Hosts of each platform for its tests. What boots, they share."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contend.platforms.base import Host, Platform
from contend.platforms.guests import virsh
from contend.store import claims, state
from contend.store.ledger import Ledger, leftovers
from contend.testbed import virt
from support import platform_cases as cases
from support.platform_cases import nothing_left, spec
from support.prerequisites import need


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The platforms that a test is tried on: not each on every one that would have to boot for it."""
    if "case" not in metafunc.fixturenames or any(
        mark.args[0] == "case" for mark in metafunc.definition.iter_markers("parametrize")
    ):
        return
    test = metafunc.function.__name__
    metafunc.parametrize("case", [case for case in cases.wanted() if cases.tries(case, test)], indirect=True)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    lacking = cases.missing(name)
    need(not lacking, f"{name} needs {lacking}")
    if name == "vm-libvirt":
        request.getfixturevalue("libvirt")()
    return name


@pytest.fixture(scope="module")
def libvirt() -> Iterator[Callable[[], None]]:
    """Starts one of the tests' own, once, which platforms of the case find by its URI; so does what a test starts."""
    with contextlib.ExitStack() as stack:

        def start() -> None:
            if cases.LIBVIRT not in os.environ:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="contend-virt-")))
                os.environ[cases.LIBVIRT] = stack.enter_context(virt.running(place))
                stack.callback(os.environ.pop, cases.LIBVIRT)
                # After a crash a ledger's address counts only where the environment names it.
                os.environ[virsh.DEFAULT[0]] = os.environ[cases.LIBVIRT]
                stack.callback(os.environ.pop, virsh.DEFAULT[0])

        yield start


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = f"contract-{os.getpid()}-{time.monotonic_ns() // 1000}"
    yield run
    # What a test removes without `contend destroy` stays claimed, on this host for all.
    claims.drop(run, state.folder() / run)


@pytest.fixture
def platform(case: str, run_id: str, tmp_path: Path) -> Iterator[Platform]:
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        made = cases.make(case, run_id, ledger, tmp_path)
        try:
            yield made
        finally:
            made.close()
    assert nothing_left(run_id)
    assert leftovers(tmp_path / "ledger.ndjson") == []


@pytest.fixture(scope="module")
def guests(
    tmp_path_factory: pytest.TempPathFactory, libvirt: object
) -> Iterator[Callable[[str], tuple[Host, str]]]:
    """The one guest of a kind that tests share, and its run: to boot takes longer than any of them. libvirt ends after."""
    with contextlib.ExitStack() as stack:
        made: dict[str, tuple[Host, str]] = {}

        def guest(case: str) -> tuple[Host, str]:
            if case not in made:
                directory = tmp_path_factory.mktemp("guest")
                run = f"contract-{case}-{os.getpid()}"
                ledger = stack.enter_context(Ledger(directory / "ledger.ndjson"))
                platform = cases.make(case, run, ledger, directory)
                stack.callback(platform.close)
                made[case] = platform.prepare(spec("shared", directory)), run
            return made[case]

        yield guest


@pytest.fixture
def host(
    case: str,
    guests: Callable[[str], tuple[Host, str]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> Host:
    if cases.is_guest(case):
        return guests(case)[0]
    platform: Platform = request.getfixturevalue("platform")
    return platform.prepare(spec("victim", tmp_path))
