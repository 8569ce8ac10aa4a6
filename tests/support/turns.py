"""What may run beside what when several processes share a run's tests (pytest-xdist, as in `make test`).

A test marked `alone` has the machine to itself: it measures what the others would change, or is itself too much for
them. A fixture that many tests read has so while it says `alone(config)`. Of tests marked `one_of(NAME)` there is one
at a time: they share something of the host that has no owner.
"""

from __future__ import annotations

import fcntl
import functools
import json
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

PLACE = pytest.StashKey[Path]()
ROOM = pytest.StashKey[IO[str]]()
"""The lock that the present test holds: of all who are there shared, of one who is alone exclusive."""
ALONE = (
    "alone.json"  # which tests are marked so, told by those that run tests to the process that hands them out
)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the process that hands out the tests, for each that runs them: where their locks are."""
    if PLACE not in node.config.stash:
        node.config.stash[PLACE] = Path(tempfile.mkdtemp(prefix="contend-turns-"))
    node.workerinput["turns"] = str(node.config.stash[PLACE])


def pytest_unconfigure(config: pytest.Config) -> None:
    if PLACE in config.stash:
        shutil.rmtree(config.stash[PLACE])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As --dist loadscope has it, but that a file's tests which run alone are handed out apart from its others, and so
    last: amid these each would wait, its process idle, until the test beside it has ended."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Turns(LoadScopeScheduling):
        @functools.cached_property
        def _alone(self) -> frozenset[str]:
            return frozenset(json.loads((config.stash[PLACE] / ALONE).read_text(encoding="utf-8")))

        def _split_scope(self, nodeid: str) -> str:
            scope = str(super()._split_scope(nodeid))
            return f"{scope} (alone)" if nodeid in self._alone else scope

    return Turns(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that run alone come last: each waits for the others' present tests."""
    items.sort(key=_is_alone)
    if (place := _place(config)) is not None:
        told = place / f"{config.workerinput['workerid']}.part"  # type: ignore[attr-defined]
        told.write_text(json.dumps([item.nodeid for item in items if _is_alone(item)]), encoding="utf-8")
        told.replace(place / ALONE)


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fixtures and repetitions are part of a test's turn."""
    place = _place(item.config)
    if place is None:
        return (yield)
    with ExitStack() as held:
        for name in sorted(mark.args[0] for mark in item.iter_markers("one_of")):
            held.enter_context(_locked(place / f"one-{name}"))
        # Who wants to be alone holds the door until it is; who does not only passes it.
        how = fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH
        with _locked(place / "door"):
            room = held.enter_context(_locked(place / "room", how))
        item.config.stash[ROOM] = room
        return (yield)


@contextmanager
def alone(config: pytest.Config) -> Iterator[None]:
    """The body, in a test that is not marked so, is alone; what comes after it has company again."""
    place = _place(config)
    if place is None:
        yield
        return
    room = config.stash[ROOM]
    fcntl.flock(room, fcntl.LOCK_UN)  # before it waits for another that wants the same
    with _locked(place / "door"):
        fcntl.flock(room, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(room, fcntl.LOCK_SH)


def _place(config: pytest.Config) -> Path | None:
    """None where one process runs all tests."""
    place = getattr(config, "workerinput", {}).get("turns")
    return None if place is None else Path(place)


@contextmanager
def _locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[IO[str]]:
    with path.open("w") as file:
        fcntl.flock(file, how)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child of fork may have the file open still
