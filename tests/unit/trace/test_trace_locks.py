"""Locks that tell who waits for whom: the behaviour of threading's own, by CPython's own tests, and what they record."""

from __future__ import annotations

import bisect
import contextlib
import importlib
import queue
import random
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

import pytest

from contend import trace
from contend.stats.quantiles import clopper_pearson
from contend.trace.names import describe
from support.ctrace_events import (
    LOCK_ACQUIRED,
    LOCK_GIVEN_UP,
    LOCK_RELEASED,
    LOCK_WAIT,
    Event,
    Trace,
    every_wait_ends,
    record,
)
from support.prerequisites import Cannot, cannot


def _cpython() -> dict[str, type[unittest.TestCase]]:
    """CPython's conformance tests over our classes; Debian and others leave the package `test` out."""
    try:
        lock_tests = importlib.import_module("test.lock_tests")
    except ModuleNotFoundError:
        cannot(Cannot.OWN_TESTS)
    kinds = {
        "LockTests": trace.Lock,
        "RLockTests": trace.RLock,
        "ConditionTests": trace.Condition,
        "SemaphoreTests": trace.Semaphore,
        "BoundedSemaphoreTests": trace.BoundedSemaphore,
    }
    cases = {}
    for name, kind in kinds.items():
        given: dict[str, object] = {_ATTRIBUTE[name]: staticmethod(kind)}
        if "Semaphore" in name:
            given["test_repr"] = None  # its pattern allows for a module's name without dots only
        cases[name] = type(name, (getattr(lock_tests, name),), given)
    return cases


_ATTRIBUTE = {
    "LockTests": "locktype",
    "RLockTests": "locktype",
    "ConditionTests": "condtype",
    "SemaphoreTests": "semtype",
    "BoundedSemaphoreTests": "semtype",
}


@pytest.mark.slow
@pytest.mark.parametrize("recording", [False, True], ids=["off", "on"])
@pytest.mark.parametrize("name", sorted(_ATTRIBUTE))
def test_they_pass_the_tests_of_cpython(name: str, recording: bool, tmp_path: Path) -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(_cpython()[name])
    assert suite.countTestCases() > 5
    if recording:
        trace.start(tmp_path)
    try:
        result = unittest.TestResult()
        suite.run(result)
    finally:
        trace.stop()
    assert result.testsRun and not result.errors and not result.failures, (result.errors, result.failures)


@pytest.mark.parametrize("make", [trace.Lock, trace.RLock])
def test_wrong_use_is_refused_as_by_threading(make: type[trace.Lock]) -> None:
    lock = make()
    for wrong, error in [((False, 1), ValueError), ((True, -2), ValueError), ((True, 1e12), OverflowError)]:
        with pytest.raises(error):
            lock.acquire(*wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lock.acquire(wrong=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        lock.acquire(True, blocking=True)  # type: ignore[misc]
    with pytest.raises(TypeError, match="a lock's name is a str, not 3"):
        make(name=3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        lock.release()
    assert lock.acquire(timeout=5) and lock.locked()
    lock.release()


def test_a_signal_reaches_who_waits() -> None:
    lock = trace.Lock()
    lock.acquire()

    def handler(_number: int, _frame: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptedError):
            lock.acquire(timeout=20)
    finally:
        signal.signal(signal.SIGALRM, before)
    lock.release()


MODULE_LOCK = trace.Lock()


class Service:
    def __init__(self) -> None:
        self.resources = trace.Lock()
        self.again = trace.RLock()
        self.named = trace.Lock(name="instance-42")
        self.changed = trace.Condition()
        self.tasks: queue.Queue[int] = trace.Queue()

    def use(self) -> None:
        local = trace.Lock()
        for lock in (self.resources, self.again, self.named, local, MODULE_LOCK):
            with lock:
                pass
        with self.again, self.again:
            pass
        with self.changed:
            self.changed.wait(0.001)
        self.tasks.put(1)
        with trace.Lock():
            pass


def test_a_lock_is_called_by_what_it_is_assigned_to(tmp_path: Path) -> None:
    from support.ctrace_events import read

    service = Service()
    path = trace.start(tmp_path)
    service.use()
    trace.stop()
    locks = {(lock.name, lock.kind): lock for lock in read(path).locks.values()}
    assert locks.keys() == {
        ("Service.resources", 1),
        ("Service.again", 2),
        ("instance-42", 1),
        ("Service.use.local", 1),
        ("MODULE_LOCK", 1),
        ("Service.changed", 4),
        ("Service.tasks", 5),
        ("", 1),
        *{key for key in locks if key[0] in ("Service.changed", "Service.tasks")},
    }
    assert all(lock.site.startswith(__file__ + ":") for lock in locks.values())
    line = Path(__file__).read_text().splitlines().index("        self.resources = trace.Lock()") + 1
    assert locks["Service.resources", 1].site == f"{__file__}:{line}"


CONTENDED = """
import random, threading, time
lock = trace.Lock(name="L")
held = []
trace.start(DIRECTORY, **OPTIONS)
def work(seed):
    draw = random.Random(seed)
    for _ in range(300):
        with lock:
            with trace.span("held"):
                if draw.random() < 0.3:
                    time.sleep(draw.random() * 2e-4)
        if draw.random() < 0.2 and not lock.acquire(timeout=draw.random() * 1e-4):
            continue
        elif lock.locked():
            try: lock.release()
            except RuntimeError: pass
threads = [threading.Thread(target=work, args=(n,), name=f"worker-{n}") for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
trace.stop()
"""


def holds(told: Trace, lock: str) -> list[tuple[int, int, int]]:
    """(track, from, to) of each time it was held, by the ticks of all threads together."""
    events = [e for e in told.of(LOCK_ACQUIRED, LOCK_RELEASED) if e.name == lock]
    events.sort(key=lambda event: event.ticks)
    result: list[tuple[int, int, int]] = []
    now: Event | None = None
    for event in events:
        if event.kind == LOCK_ACQUIRED:
            assert now is None, "taken while it is held"
            now = event
        else:
            assert now is not None, "released while it is free"
            result.append((now.track, now.ticks, event.ticks))
            now = None
    assert now is None
    return result


def who_may_hold(held: list[tuple[int, int, int]], ticks: int) -> set[int]:
    """The track that holds it then; between two holds both: a clock is read before the release and after the taking."""
    begins = [a for _track, a, _b in held]
    at = bisect.bisect_right(begins, ticks)
    before, after = held[at - 1 : at], held[at : at + 1]
    if before and ticks <= before[0][2]:
        return {before[0][0]}
    return {track for track, _a, _b in (*before, *after)}


def test_a_waits_holder_is_the_real_one(tmp_path: Path) -> None:
    code = CONTENDED.replace(", **OPTIONS", "")
    code = code[: code.index("        if draw.random() < 0.2")] + code[code.index("threads = [") :]
    # Its first use finds out its name, which lets other threads run; what they do with it meanwhile is not recorded.
    code = code.replace("def work(", "with lock: pass\ndef work(")
    told = record(code, tmp_path)
    held = holds(told, "L")
    assert len(held) == 2401
    waits = told.of(LOCK_WAIT)
    assert len(waits) > 100 and all(told.tracks[wait.value].name.startswith("worker-") for wait in waits)
    assert [wait for wait in waits if wait.value not in who_may_hold(held, wait.ticks)] == []
    certain = sum(who_may_hold(held, wait.ticks) == {wait.value} for wait in waits)
    assert clopper_pearson(len(waits) - certain, len(waits))[0] < 0.1, (certain, len(waits))
    every_wait_ends(told)


def test_released_by_another_thread_and_given_up(tmp_path: Path) -> None:
    told = record(
        """
        import threading
        lock = trace.Lock(name="L")
        trace.start(DIRECTORY)
        lock.acquire()
        assert not lock.acquire(timeout=0.01) and not lock.acquire(False) and not lock.acquire(timeout=0)
        other = threading.Thread(target=lock.release, name="other")
        other.start(); other.join()
        trace.stop()
        """,
        tmp_path,
    )
    waits, gave_up = told.of(LOCK_WAIT), told.of(LOCK_GIVEN_UP)
    assert len(waits) == len(gave_up) == 1
    assert 0.01 <= told.seconds(gave_up[0].ticks - waits[0].ticks) < 1
    [hold] = holds(told, "L")
    assert told.tracks[told.of(LOCK_RELEASED)[0].track].name == "other" and waits[0].value == hold[0]


def test_a_try_of_what_another_thread_has_is_a_wait_without_a_length(tmp_path: Path) -> None:
    told = record(
        """
        import threading
        lock, allowed = trace.Lock(name="L"), trace.Semaphore(1, name="S")
        def tries():
            assert not lock.acquire(False) and not lock.acquire(timeout=0) and not allowed.acquire(False)
        trace.start(DIRECTORY)
        with lock, allowed:
            other = threading.Thread(target=tries); other.start(); other.join()
        trace.stop()
        """,
        tmp_path,
    )
    waits, gave_up = told.of(LOCK_WAIT), told.of(LOCK_GIVEN_UP)
    assert [told.locks[event.id].name for event in waits] == ["L", "L", "S"]
    assert [event.id for event in gave_up] == [event.id for event in waits]
    assert waits[0].ticks == gave_up[0].ticks and waits[1].ticks == gave_up[1].ticks


def test_a_hold_tells_for_how_long_it_would_have_been_waited_for(tmp_path: Path) -> None:
    told = record(
        """
        lock, slots = trace.Lock(name="lock"), trace.Semaphore(3, name="slots")
        trace.start(DIRECTORY)
        for ways in ({}, {"blocking": False}, {"timeout": 2.5}):
            for each in (lock, slots):
                assert each.acquire(**ways)
                each.release()
        trace.stop()
        """,
        tmp_path,
    )
    for name in ("lock", "slots"):
        values = [event.value for event in told.of(LOCK_ACQUIRED) if event.name == name]
        assert values[:2] == [0, 2]
        assert 2_499_000 <= (values[2] >> 1) - 1 <= 2_500_000


def test_an_rlock_is_recorded_once_however_deep(tmp_path: Path) -> None:
    told = record(
        """
        lock = trace.RLock(name="R")
        trace.start(DIRECTORY)
        with lock, lock, lock:
            pass
        condition = trace.Condition(lock)
        with condition, condition:
            condition.wait(0.01)
        trace.stop()
        """,
        tmp_path,
    )
    assert len(holds(told, "R")) == 3


def test_a_semaphore_lets_in_so_many(tmp_path: Path) -> None:
    told = record(
        """
        import threading, time
        gate = trace.BoundedSemaphore(2, name="gate")
        trace.start(DIRECTORY)
        asked = []
        def work():
            asked.append(1)
            with gate:
                while len(asked) < 6: time.sleep(0.001)
                time.sleep(0.02)
        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
        trace.stop()
        """,
        tmp_path,
    )
    inside = 0
    for event in sorted(told.of(LOCK_ACQUIRED, LOCK_RELEASED), key=lambda event: event.ticks):
        inside += 1 if event.kind == LOCK_ACQUIRED else -1
        assert 0 <= inside <= 2
    assert inside == 0 and len(told.of(LOCK_WAIT)) >= 2
    assert {event.value for event in told.of(LOCK_WAIT)} == {0}  # several hold it: nobody is named


def test_locks_survive_random_use_with_recording_switched_at_random(tmp_path: Path) -> None:
    """Mutual exclusion holds whatever recording does meanwhile."""
    draw = random.Random(4711)
    lock, again = trace.Lock(), trace.RLock()
    inside, ended = [0, 0], threading.Event()
    wrong: list[object] = []

    def work(seed: int) -> None:
        mine = random.Random(seed)
        while not ended.is_set():
            which, held = mine.choice([(0, lock), (1, again)])
            if not held.acquire(timeout=mine.choice([-1, 0.001, 0.01])):
                continue
            inside[which] += 1
            if inside[which] != 1:
                wrong.append(inside[:])
            if mine.random() < 0.2:
                time.sleep(1e-5)
            inside[which] -= 1
            held.release()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        trace.start(tmp_path)
        time.sleep(draw.random() * 0.01)
        trace.stop()
        time.sleep(draw.random() * 0.005)
    ended.set()
    for thread in threads:
        thread.join()
    assert not wrong and not lock.locked()


NAMED = """
class Service:
    def __init__(self):
        self.one = Lock()
        self.two, self.three = Lock(), Lock()
        self.four, self.five, self.six = Lock(), make(), Lock()
        self.seven, self.eight, self.nine, self.ten = Lock(), Lock(), Lock(), dict(a=Lock())
        self.box = Box(Lock())
        self.by_name = {"a": Lock(), "b": Lock()}
        self.typed: object = Lock()
        with Lock() as self.entered: pass
        self.first = self.second = Lock()
        local, self.held[0] = Lock(), Lock()
        either = Lock() if self else Lock()
class Box:
    def __init__(self, lock): pass
def make():
    return Lock()
"""


def test_a_lock_is_called_what_it_is_assigned_to() -> None:
    found: list[str] = []

    def noted() -> object:
        frame = sys._getframe(1)
        found.append(describe(None, frame.f_code, frame.f_lasti)[0])
        return contextlib.nullcontext()

    module: dict[str, object] = {"Lock": noted}
    exec(compile(NAMED, "named.py", "exec"), module)
    service = module["Service"]
    assert isinstance(service, type)
    service.held = {}  # type: ignore[attr-defined]
    service()
    names = [
        "one",
        "two",
        "three",
        "four",
        "",
        "six",
        "seven",
        "eight",
        "nine",
        "",
        "",
        "by_name",
        "by_name",
        "typed",
        "entered",
    ]
    expected = [f"Service.{name}" if name else "" for name in names]
    assert found[: len(expected)] == expected
    both, local, item, either = found[len(expected) :]
    assert both in ("Service.first", "Service.second") and (local, item) == ("Service.__init__.local", "")
    assert either in ("Service.__init__.either", "")  # which way it goes on is not looked at
