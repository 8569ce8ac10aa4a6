"""Queues in the place of the queue module's: puts, gets, lengths and the waits for an item or for room."""

from __future__ import annotations

import _thread
import functools
import queue
from typing import Any, TypeVar

from contend._native import Lock, Waits, trace_wrap
from contend.trace import flow
from contend.trace.locks import LIFO_QUEUE, PRIORITY_QUEUE, QUEUE, Condition, unrecorded_condition

__all__ = ["LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"]

T = TypeVar("T")

# The module's own, also where its names are patched. By name, and not by super(), which costs more than the recording.
_Queue, _LifoQueue, _PriorityQueue = queue.Queue, queue.LifoQueue, queue.PriorityQueue
_SimpleQueue = queue.SimpleQueue
_PUT, _GET, _GET_NOW = 7, 8, 9  # of trace_wrap


class Queue(queue.Queue[T]):
    """queue.Queue; every put and get is on record with the length after it, and every wait.

    >>> tasks: Queue[int] = Queue(maxsize=10, name="tasks")
    >>> tasks.put(1); tasks.get()
    1
    """

    _kind = QUEUE

    def __init__(self, maxsize: int = 0, *, name: str | None = None) -> None:
        super().__init__(maxsize)
        self._waits = Waits(self._kind, name)
        # The conditions share the queue's identity: who waits, waits for the queue.
        self.mutex = Lock(name=f"{name}.mutex" if name else None)  # type: ignore[assignment]
        self.not_empty = Condition(self.mutex, waits=self._waits)  # type: ignore[arg-type]
        self.not_full = Condition(self.mutex, waits=self._waits)  # type: ignore[arg-type]
        self.all_tasks_done = Condition(self.mutex, waits=self._waits)  # type: ignore[arg-type]

    # queue.Queue calls these two with its mutex held. Its own are one line each on a deque, and so are these: a call
    # of Python's costs ten times what recording does.
    if _Queue.__module__ == "queue":

        def _put(self, item: Any) -> None:
            held = self.queue
            held.append(item)
            self._waits.put(held)

        def _get(self) -> T:
            held = self.queue
            item: T = held.popleft()
            self._waits.got(held)
            return item

    else:

        def _put(self, item: Any) -> None:
            _Queue._put(self, item)
            self._waits.put(self._qsize())

        def _get(self) -> T:
            item: T = _Queue._get(self)
            self._waits.got(self._qsize())
            return item

    if not hasattr(_Queue, "_qsize"):
        # Where the module was monkey-patched before: eventlet's has qsize only, which takes no lock.
        def _qsize(self) -> int:
            return self.qsize()


class UnrecordedQueue(queue.Queue[T]):
    """The queue module's own, also where its names are patched: a part of something else."""

    def __init__(self) -> None:
        super().__init__()
        self.mutex = _thread.allocate_lock()
        self.not_empty = unrecorded_condition(self.mutex)
        self.not_full = unrecorded_condition(self.mutex)
        self.all_tasks_done = unrecorded_condition(self.mutex)


class LifoQueue(Queue[T], queue.LifoQueue[T]):
    """queue.LifoQueue, as `Queue` here."""

    _kind = LIFO_QUEUE

    def _put(self, item: Any) -> None:
        _LifoQueue._put(self, item)
        self._waits.put(self._qsize())

    def _get(self) -> T:
        item: T = _LifoQueue._get(self)
        self._waits.got(self._qsize())
        return item


class PriorityQueue(Queue[Any], queue.PriorityQueue[Any]):
    """queue.PriorityQueue, as `Queue` here, and which item was got: a flow from its put to its get."""

    _kind = PRIORITY_QUEUE

    def __init__(self, maxsize: int = 0, *, name: str | None = None) -> None:
        super().__init__(maxsize, name=name)
        # By the identity of what is inside, which is kept meanwhile: one may be inside twice.
        self._flows: dict[int, list[int]] = {}

    def _put(self, item: Any) -> None:
        _PriorityQueue._put(self, item)
        if self._waits.on():
            self._flows.setdefault(id(item), []).append(flow.sent("item"))
        self._waits.put(self._qsize())

    def _get(self) -> Any:
        item = _PriorityQueue._get(self)
        self._waits.got(self._qsize())
        if numbers := self._flows.get(id(item)):
            flow.received("item", numbers.pop(0))
            if not numbers:
                del self._flows[id(item)]
        return item


class SimpleQueue(queue.SimpleQueue[T]):
    """queue.SimpleQueue; every put and get is on record with the length after it, and every wait for an item."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__()
        self._waits = Waits(QUEUE, name)

    # It has no hook inside as Queue has: its own methods, called by what is native too.
    put = functools.update_wrapper(trace_wrap(_SimpleQueue.put, "", _PUT), _SimpleQueue.put)
    put_nowait = functools.update_wrapper(
        trace_wrap(_SimpleQueue.put_nowait, "", _PUT), _SimpleQueue.put_nowait
    )
    get = functools.update_wrapper(trace_wrap(_SimpleQueue.get, "", _GET), _SimpleQueue.get)
    get_nowait = functools.update_wrapper(
        trace_wrap(_SimpleQueue.get_nowait, "", _GET_NOW), _SimpleQueue.get_nowait
    )
