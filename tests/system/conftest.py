"""What the system tests share: a home of their own for contend, and a finished run to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contend.errors import ContendError
from contend.probes.client import ProbeProcess
from support.browser import CHROMIUM, chromium
from support.command_line import Home
from support.prerequisites import need
from support.rpc import broker

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from contend.testbed.rabbit.bed import Bed


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies here runs real tools on this machine: no file can forget to say so."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Path]]:
    """One finished run of a moment, for tests that only read."""
    home = Home(tmp_path_factory.mktemp("shared"))
    home("run", home.scenario(blocks=6), timeout=180).fine()
    yield home, home.the_run()
    home.nothing_left()


@pytest.fixture(params=["bpf", "taskstats", "proc"])
def source(request: pytest.FixtureRequest) -> str:
    """A source of processes' figures that works here."""
    name: str = request.param
    try:
        ProbeProcess({"interval_ms": 1000, "processes": True, "source": name}).stop()
    except ContendError as error:
        need(False, f"the source {name}: {error}")
    return name


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium without a network."""
    need(Path(CHROMIUM).exists(), "chromium: apt-get install chromium")
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A broker of one node, for tests that leave it as it was."""
    with broker(tmp_path_factory.mktemp("rabbit")) as up:
        yield up
