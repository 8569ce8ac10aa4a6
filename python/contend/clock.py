"""The clock that code waits on, passed in so that tests need no sleeping, and when its user began to wait."""

from __future__ import annotations

import datetime
import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    def monotonic_ns(self) -> int: ...
    def utc(self) -> str: ...
    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """CLOCK_MONOTONIC, the one clock of every duration in a run, and UTC for people."""

    name = "CLOCK_MONOTONIC"

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def utc(self) -> str:
        return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class Began(NamedTuple):
    """The moment when the user pressed the key: CLOCK_MONOTONIC ns. The command line passes it on to its verbs.

    No dataclass: a storm's client imports this module, and is to start at once.
    """

    ns: int
