"""A clock that goes only when it is told to."""

from __future__ import annotations


class FakeClock:
    """See `contend.clock.Clock`. `now_ns`: what it shows at first."""

    name = "fake"

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def utc(self) -> str:
        return "2026-11-23T00:00:00.000+00:00"

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(max(0.0, seconds) * 1e9)
