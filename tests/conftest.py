"""What tests share. A missing prerequisite fails where CI is set, and skips elsewhere with its reason."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import quick_start
from support.command_line import Home
from support.prerequisites import need

pytest_plugins = [
    "pytester",
    "support.costs",
    "support.skips",
    "support.samples",
    "support.repeats",
    "support.turns",
    "support.left_behind",
    "support.told_at_once",
    "support.openstack_bed",
    "support.examples",
    "support.whole_estimates",
    "support.pasted_commands",
]


def pytest_configure() -> None:
    """Ctrl-C is a signal again where the tests are run in the background: shells have such commands ignore it, and what
    they start inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    quick_start.end()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Full campaigns run only when asked for by `-m accept`."""
    if "accept" in (config.option.markexpr or ""):
        return
    left = [item for item in items if item.get_closest_marker("accept") is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item.get_closest_marker("accept") is None]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB, for tests that fill it."""
    need(os.geteuid() == 0 and shutil.which("mount"), "mounting a small file system needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def contend(tmp_path: Path) -> Iterator[Home]:
    """A home for one test. Afterwards nothing of its runs may be on this host any more."""
    home = Home(tmp_path)
    yield home
    home.nothing_left()
