"""Queues and conditions that tell who waits: they do what threading's and queue's own do, with what they record."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from contend import trace
from contend.trace.locks import unrecorded_condition
from support.ctrace_events import (
    CONDITION_LOCK,
    LOCK_ACQUIRED,
    LOCK_WAIT,
    QUEUE_GOT,
    QUEUE_PUT,
    every_wait_ends,
    record,
)


@pytest.mark.parametrize("kind", ["Queue", "LifoQueue", "PriorityQueue"])
def test_a_queue_tells_its_length_and_who_waits(kind: str, tmp_path: Path) -> None:
    told = record(
        f"""
        import threading, time
        tasks = trace.{kind}(maxsize=2, name="tasks")
        trace.start(DIRECTORY)
        def consume():
            while tasks.get() < 49:
                time.sleep(0.0005)
                tasks.task_done()
        thread = threading.Thread(target=consume, name="consumer")
        thread.start()
        for number in range(50):
            tasks.put(number)
            if {kind == "LifoQueue"}: tasks.join()  if number < 49 else None
        thread.join()
        trace.stop()
        """,
        tmp_path,
    )
    moves = sorted(told.of(QUEUE_PUT, QUEUE_GOT), key=lambda event: event.ticks)
    length = 0
    for move in moves:
        length += 1 if move.kind == QUEUE_PUT else -1
        assert move.value == length
    assert length == 0 and len(moves) == 100
    assert len([wait for wait in told.of(LOCK_WAIT) if wait.name == "tasks"]) > 5
    every_wait_ends(told)


def test_a_queue_over_what_has_no_length_goes_on_as_without_us(tmp_path: Path) -> None:
    told = record(
        """
        class Bag:
            def __init__(self): self.items = []
            def append(self, item): self.items.append(item)
            def popleft(self): return self.items.pop(0)
        class Bags(trace.Queue):
            def _init(self, maxsize): self.queue = Bag()
            def _qsize(self): return len(self.queue.items)
        class Failing(Bag):
            def __len__(self): raise RuntimeError("not now")
        class Failings(Bags):
            def _init(self, maxsize): self.queue = Failing()
        trace.start(DIRECTORY)
        for kind in (Bags, Failings):
            tasks = kind(2, name=kind.__name__)
            tasks.put("a"); tasks.put("b")
            assert tasks.full() and tasks.qsize() == 2
            assert (tasks.get(), tasks.get(), tasks.empty()) == ("a", "b", True)
        trace.stop()
        """,
        tmp_path,
    )
    assert not told.of(QUEUE_PUT, QUEUE_GOT)
    assert {event.name for event in told.of(LOCK_ACQUIRED)} == {"Bags.mutex", "Failings.mutex"}


def test_a_condition_of_the_programs_own_is_told_of_once_though_nobody_waits(tmp_path: Path) -> None:
    told = record(
        """
        import threading
        from concurrent.futures import Future
        threading.Condition = trace.Condition
        own, given = trace.Condition(name="own"), trace.Condition(trace.Lock(name="mine"), name="given")
        event, silent = threading.Event(), trace.Condition(name="silent")
        class Below(trace.Condition): pass
        below = Below(name="below")
        trace.start(DIRECTORY)
        for _ in range(2):
            with own: own.notify_all()
            with given: given.notify()
            with below: below.notify()
            with silent: pass
            future = Future()
            event.set(), future.set_result(1)
        trace.stop()
        """,
        tmp_path,
    )
    names = {event.id: event.name for event in told.of(LOCK_ACQUIRED)}
    found = [(event.name, names[event.value]) for event in told.of(CONDITION_LOCK)]
    assert found == [("own", "own.lock"), ("given", "mine"), ("below", "below.lock")]


class _Steps(trace.Condition):
    """A class of a program's that changes what the native methods would leave out."""

    def notify(self, n: int = 1) -> None:
        asked.append(n)


asked: list[int] = []


@pytest.mark.parametrize("lock", [trace.Lock, trace.RLock, threading.Lock, threading.RLock])
def test_a_condition_does_what_threadings_own_does_with_any_lock(lock: type[trace.Lock]) -> None:
    for condition in (trace.Condition(lock()), unrecorded_condition(lock())):
        for notify in (condition.notify, condition.notify_all, lambda of=condition: of.notify(2)):
            with pytest.raises(RuntimeError, match="cannot notify on un-acquired lock"):
                notify()
            with condition:
                assert notify() is None
        with pytest.raises(RuntimeError, match=r"un-acquired|unlocked"):
            condition.__exit__(None, None, None)
        with pytest.raises(KeyError), condition:
            raise KeyError
        with pytest.raises(TypeError), condition:
            condition.notify(1, 2)  # type: ignore[call-arg]
        assert not condition.wait_for(lambda: False, timeout=0) if condition.acquire() else False
        condition.release()


def test_a_condition_wakes_as_many_as_it_is_told() -> None:
    condition, awake = trace.Condition(), []

    def wait() -> None:
        with condition:
            condition.wait(30)
            awake.append(1)

    threads = [threading.Thread(target=wait) for _ in range(6)]
    for thread in threads:
        thread.start()
    while len(condition._waiters) < 6:
        time.sleep(0.001)
    for notify, left in (
        (condition.notify, 5),
        (lambda: condition.notify(n=2), 3),
        (condition.notify_all, 0),
    ):
        with condition:
            notify()
            assert len(condition._waiters) == left
    for thread in threads:
        thread.join(30)
    assert len(awake) == 6


def test_a_class_below_a_condition_is_asked_itself() -> None:
    asked.clear()
    condition = _Steps()
    with condition:
        condition.notify_all()
    assert asked == [0]
    broken = trace.Condition()
    del broken._lock
    for call in (broken.__enter__, lambda: broken.__exit__(None, None, None)):
        with pytest.raises(AttributeError, match="_lock"):
            call()
