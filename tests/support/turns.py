"""What may run beside what when several processes share a run's tests (pytest-xdist, as in `make test`).

A test marked `alone` has the machine to itself: it measures what the others would change, or is itself too much for
them. Of tests marked `one_of(NAME)` there is one at a time: they share something of the host that has no owner.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

PLACE = pytest.StashKey[Path]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the process that hands out the tests, for each that runs them: where their locks are."""
    if PLACE not in node.config.stash:
        node.config.stash[PLACE] = Path(tempfile.mkdtemp(prefix="contend-turns-"))
    node.workerinput["turns"] = str(node.config.stash[PLACE])


def pytest_unconfigure(config: pytest.Config) -> None:
    if PLACE in config.stash:
        shutil.rmtree(config.stash[PLACE])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that run alone come last: each waits for the others' present tests."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fixtures and repetitions are part of a test's turn."""
    place = getattr(item.config, "workerinput", {}).get("turns")
    if place is None:
        return (yield)
    with ExitStack() as held:
        for name in sorted(mark.args[0] for mark in item.iter_markers("one_of")):
            held.enter_context(_locked(Path(place, f"one-{name}"), fcntl.LOCK_EX))
        alone = item.get_closest_marker("alone") is not None
        # Who wants to be alone holds the door until it is; who does not only passes it.
        with _locked(Path(place, "door"), fcntl.LOCK_EX):
            held.enter_context(_locked(Path(place, "room"), fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        return (yield)


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, how)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child of fork may have the file open still
