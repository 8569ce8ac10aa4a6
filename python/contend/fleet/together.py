"""Blocks that start together: every host that is there waits, and all begin at one moment of the starting machine's clock.

A host that is lost, or much slower than the last block was, is not waited for; when it comes, it goes on at once until it
has caught up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from contend.fleet.record import HostState

LOOK_S = 0.05
AHEAD_NS = 300_000_000  # the order must be there before the moment it names
PATIENCE_S = 10.0
FIRST_S = 60.0  # before the first block: pilots end when a host's series is steady
GONE = ("ended", "given up", "failed", "lost")


class Together:
    """Lets hosts begin each block together. go: sends a host on: its name, the block, the moment in ns of our clock."""

    def __init__(
        self,
        states: Mapping[str, HostState],
        hosts: Iterable[str],
        go: Callable[[str, int, int], Awaitable[None]],
    ) -> None:
        self._states, self._hosts, self._go = states, tuple(hosts), go
        self._ready: dict[str, int] = {}
        self._since = 0.0
        self._last_s = 0.0
        self._began = 0.0

    def ready(self, host: str) -> int:
        """The number of the block that the host waits for; 0 for none."""
        return self._ready.get(host, 0)

    def heard(self, host: str, block: int) -> None:
        if block:
            self._since = self._since or time.monotonic()
            self._ready[host] = block
        else:
            self._ready.pop(host, None)

    def chosen(self, now: float) -> tuple[int, list[str], list[str]]:
        """The block that begins, for whom, and who goes on at once to catch up; 0 while there is one to wait for."""
        waiting = {h: b for h, b in self._ready.items() if self._states[h].state not in GONE}
        if not waiting:
            self._since = 0.0
            return 0, [], []
        block = max(waiting.values())
        behind = [host for host, at in waiting.items() if at < block]
        there = [host for host in self._hosts if self._states[host].state not in GONE]
        patience_s = max(PATIENCE_S, 2 * self._last_s) if self._began else FIRST_S
        if not behind and (len(waiting) >= len(there) or now - self._since > patience_s):
            return block, list(waiting), []
        return 0, [], behind

    async def lead(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = time.monotonic()
            block, group, behind = self.chosen(now)
            for host in behind:
                await self._go(host, self._ready.pop(host), time.monotonic_ns())
            if block:
                at_ns = time.monotonic_ns() + AHEAD_NS
                self._last_s = now - self._began if self._began else 0.0
                self._began, self._since = now, 0.0
                for host in group:
                    self._ready.pop(host, None)
                await asyncio.gather(*(self._go(host, block, at_ns) for host in group))
