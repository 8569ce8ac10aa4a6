"""How much of a large input has been read: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TextIO

from contend.clock import Clock, SystemClock
from contend.units import NS_PER_S

AFTER_NS = NS_PER_S // 2  # a file that is read sooner needs no line
EVERY_NS = NS_PER_S // 5
MIB = 1 << 20


class Reading:
    """Draws ` reading 34 %  of 105 MiB` on a stream, and erases it in the end. Each call returns at once and never raises.

    It is drawn when something has been read, never by a timer.

    >>> import io
    >>> with Reading(io.StringIO(), 10 * MIB) as reading:
    ...     reading.read(MIB)
    """

    def __init__(self, stream: TextIO, size_bytes: int, clock: Clock | None = None) -> None:
        self._stream, self._size, self._clock = stream, size_bytes, clock or SystemClock()
        self._live = stream.isatty()
        self._done = 0
        self._next_ns = self._clock.monotonic_ns() + AFTER_NS
        self._drawn = False

    def read(self, count: int) -> None:
        """Count that many bytes more as read."""
        self._done += count
        if not self._live or (now := self._clock.monotonic_ns()) < self._next_ns:
            return
        self._next_ns = now + EVERY_NS
        share = min(1.0, self._done / max(1, self._size))
        self._write(f"\r\x1b[2K reading {share:3.0%}  of {self._size / MIB:,.0f} MiB")
        self._drawn = True

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the reader went away: what is read is what matters
            self._live = False
