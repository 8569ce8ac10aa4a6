"""Queues in the place of the queue module's: puts, gets, lengths and the waits for an item or for room."""

from __future__ import annotations

import queue
from typing import Any, TypeVar

from contend._native import Lock, Waits
from contend.trace.locks import QUEUE, Condition

__all__ = ["LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"]

T = TypeVar("T")


class Queue(queue.Queue[T]):
    """queue.Queue; every put and get is on record with the length after it, and every wait.

    >>> tasks: Queue[int] = Queue(maxsize=10, name="tasks")
    >>> tasks.put(1); tasks.get()
    1
    """

    def __init__(self, maxsize: int = 0, *, name: str | None = None) -> None:
        super().__init__(maxsize)
        self._waits = Waits(QUEUE, name)
        # The conditions share the queue's identity: who waits, waits for the queue.
        self.mutex = Lock(name=f"{name}.mutex" if name else None)  # type: ignore[assignment]
        self.not_empty = Condition(self.mutex, waits=self._waits)  # type: ignore[arg-type]
        self.not_full = Condition(self.mutex, waits=self._waits)  # type: ignore[arg-type]
        self.all_tasks_done = Condition(self.mutex, waits=self._waits)  # type: ignore[arg-type]

    # queue.Queue calls these two with its mutex held.
    def _put(self, item: Any) -> None:
        super()._put(item)
        self._waits.put(self._length())

    def _get(self) -> T:
        item: T = super()._get()
        self._waits.got(self._length())
        return item

    def _length(self) -> int:
        # Where the module was monkey-patched before: eventlet's has qsize only, which takes no lock.
        return int(getattr(self, "_qsize", self.qsize)())


class LifoQueue(Queue[T], queue.LifoQueue[T]):
    """queue.LifoQueue, as `Queue` here."""


class SimpleQueue(queue.SimpleQueue[T]):
    """queue.SimpleQueue; every put and get is on record with the length after it, and every wait for an item."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__()
        self._waits = Waits(QUEUE, name)

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        super().put(item, block, timeout)
        self._waits.put(self.qsize())

    def put_nowait(self, item: T) -> None:
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        waits = self._waits
        if not block or not waits.on() or self.qsize():
            item = super().get(block, timeout)
        else:
            token = waits.wait()
            try:
                item = super().get(block, timeout)
            except BaseException:
                waits.gave_up(token)
                raise
            waits.passed(token)
        waits.got(self.qsize())
        return item

    def get_nowait(self) -> T:
        return self.get(False)


class PriorityQueue(Queue[Any], queue.PriorityQueue[Any]):
    """queue.PriorityQueue, as `Queue` here."""
