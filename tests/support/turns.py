"""What may run beside what when several processes share a run's tests (pytest-xdist, as in `make test`).

A test marked `alone` has the machine to itself: it measures what the others would change, or is itself too much for
them. A fixture that many tests read has so while it says `alone(config)`. Of tests marked `one_of(NAME)` there is one
at a time: they share something of the host that has no owner.

There are more processes than CPUs, since tests of the live machine mostly wait. Those that do not, which are all without
the mark `system`, burn: of them there are at most as many at a time as there are CPUs. They are handed out amid the
others from the beginning to the end, each kind with what takes longest first.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from support.costs import function_of, known

PLACE = pytest.StashKey[Path]()
ROOM = pytest.StashKey[IO[str]]()
"""The lock that the present test holds: of all who are there shared, of one who is alone exclusive."""
SCOPES = (
    "scopes.json"  # what each test is handed out with, told by those that run tests to the process that does
)
TOGETHER = ("openstack", "rabbit", "shared_run")
"""Fixtures that take long to come up and are the same for all files: who reads one is handed out with all who do."""
UNKNOWN_S = 0.05
"""Of a test whose costs are not known: it took less than those that are."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the process that hands out the tests, for each that runs them: where their locks are."""
    node.workerinput["turns"] = str(place_of(node.config))


def place_of(config: pytest.Config) -> Path:
    """In the process that hands out the tests: a directory that all have, until the end."""
    if PLACE not in config.stash:
        config.stash[PLACE] = Path(tempfile.mkdtemp(prefix="contend-turns-"))
    return config.stash[PLACE]


def scopes_told(config: pytest.Config) -> dict[str, str]:
    """In the process that hands out the tests, once one that runs them has collected: what each is handed out with."""
    told: dict[str, str] = json.loads((place_of(config) / SCOPES).read_text(encoding="utf-8"))
    return told


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if PLACE in config.stash:
        shutil.rmtree(config.stash[PLACE])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As --dist loadscope has it, with what is handed out together as `scope` says."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Turns(LoadScopeScheduling):
        @functools.cached_property
        def _scopes(self) -> dict[str, str]:
            return scopes_told(config)

        def _split_scope(self, nodeid: str) -> str:
            return self._scopes[nodeid]

    return Turns(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the order in which they are handed out; those that run alone last: each waits for the others' present tests."""
    if (place := _place(config)) is None:
        items.sort(key=_is_alone)
        return
    took = known()
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope(item), []).append(item)

    def expected_s(item: pytest.Item) -> float:
        cost = took.get(function_of(item.nodeid))
        return UNKNOWN_S if cost is None else cost.wall_s

    ordered = order(
        [(name, sum(map(expected_s, of)), _is_alone(of[0]), _burns(of[0])) for name, of in scopes.items()]
    )
    items[:] = [item for name in ordered for item in scopes[name]]
    told = place / f"{config.workerinput['workerid']}.part"  # type: ignore[attr-defined]
    told.write_text(
        json.dumps({item.nodeid: name for name, of in scopes.items() for item in of}), encoding="utf-8"
    )
    told.replace(place / SCOPES)


def scope(item: pytest.Item) -> str:
    """Tests of one scope run in one process, one after the other: those of a file, which may share addresses, names and
    fixtures.

    A file's tests that run alone are apart from its others: amid these each would wait, its process idle, until the test
    beside it has ended. Tests of which there is one at a time are together, else one process would wait for another.
    """
    file = item.nodeid.rsplit("::", 1)[0]
    if _is_alone(item):
        return f"{file} (alone)"
    if names := sorted(mark.args[0] for mark in item.iter_markers("one_of")):
        return f"one of {names[0]}"
    for name in TOGETHER:
        if name in getattr(item, "fixturenames", ()):
            return f"with {name}"
    return file


def order(scopes: Sequence[tuple[str, float, bool, bool]]) -> list[str]:
    """Of (name, expected s, is it alone, does it burn): what burns spread evenly amid what waits, each the longest first.

    >>> order([("a", 1, False, False), ("b", 9, False, False), ("c", 5, False, True), ("d", 5, True, False)])
    ['b', 'c', 'a', 'd']
    """
    placed: list[tuple[bool, float, str]] = []
    for alone_too in (False, True):
        for burning in (False, True):
            kind = [s for s in scopes if (s[2], s[3]) == (alone_too, burning)]
            kind.sort(key=lambda s: -s[1])
            whole, before = sum(s[1] for s in kind) or 1.0, 0.0
            for name, expected_s, *_ in kind:
                placed.append((alone_too, before / whole, name))
                before += expected_s
    return [name for _, _, name in sorted(placed, key=lambda at: at[:2])]


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _burns(item: pytest.Item) -> bool:
    return item.get_closest_marker("system") is None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fixtures and repetitions are part of a test's turn."""
    place = _place(item.config)
    if place is None:
        return (yield)
    with ExitStack() as held:
        for name in sorted({mark.args[0] for mark in item.iter_markers("one_of")}):
            held.enter_context(_locked(place / f"one-{name}"))
        if _burns(item) and not _is_alone(item):
            held.enter_context(_cpu(place))
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
def _cpu(place: Path) -> Iterator[None]:
    """One of as many turns as there are CPUs, and of two at least."""
    with ExitStack() as files:
        count = max(2, len(os.sched_getaffinity(0)))
        turns = [files.enter_context((place / f"cpu-{n}").open("w")) for n in range(count)]
        while (mine := next(filter(_taken, turns), None)) is None:
            time.sleep(0.01)
        try:
            yield
        finally:
            fcntl.flock(mine, fcntl.LOCK_UN)


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[IO[str]]:
    with path.open("w") as file:
        fcntl.flock(file, how)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child of fork may have the file open still
