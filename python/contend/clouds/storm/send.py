"""Requests that leave when they are due, from a few threads: all at once, or at a rate whatever has been answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
# More connections than this at once overrun the listen queues of small API servers, whose kernel then drops some.
MOST_AT_ONCE = 64


class Sending(Generic[T]):
    """Calls `send` for each of `items` at its due time, CLOCK_MONOTONIC ns. Start it, do something else, join it."""

    def __init__(self, items: Sequence[T], due_ns: Sequence[int], send: Callable[[T], None]) -> None:
        self._pairs = iter(zip(items, due_ns, strict=True))
        self._send = send
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, name=f"send-{number}", daemon=True)
            for number in range(min(len(items), MOST_AT_ONCE))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for all; raises the first error that `send` let through."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        while True:
            with self._lock:
                pair = next(self._pairs, None)
            if pair is None:
                return
            item, due_ns = pair
            time.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            try:
                self._send(item)
            except BaseException as error:  # noqa: BLE001 - raised again in join
                self._errors.append(error)
                return
