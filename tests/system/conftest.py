"""What the system tests share: a home of their own for contend, and a finished run to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Home


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Path]]:
    """One finished run of a moment, for tests that only read."""
    home = Home(tmp_path_factory.mktemp("shared"))
    home("run", home.scenario(blocks=6), timeout=180).fine()
    yield home, home.the_run()
    home.nothing_left()
