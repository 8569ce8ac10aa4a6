"""A command inside a guest: timed by the guest's clock, which is known by this host's, and ended by the agent."""

from __future__ import annotations

import os
import signal as signals
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from contend.errors import HostFailed
from contend.platforms.base import Exit
from contend.platforms.guests.channel import Channel, Task
from contend.platforms.processes import signal_number

_TIMEOUT_GRACE_S = 1.0
_KILL_S = 30.0  # an emulated guest with a tenth of a CPU takes its time


class GuestProcess:
    """See `base.Process`. `pid` is QEMU's: what runs the command, as seen from here.

    Exit is what the guest's kernel counted. Its start and end are each converted by an exchange next to it, because a
    guest's clock may go at another rate. `after` is called once when it has ended, to take over its files.
    """

    def __init__(
        self,
        channel: Channel,
        task: Task,
        pid: int,
        requested_ns: int,
        started_ns: int,
        after: Callable[[GuestProcess], None],
    ) -> None:
        self.pid, self.started_ns = pid, started_ns
        self.on_exit: Callable[[int], None] | None = None
        self.task = task
        self._channel, self._requested_ns, self._after = channel, requested_ns, after
        self._lock = threading.RLock()
        self._exit: Exit | None = None

    def alive(self) -> bool:
        return not self.task.ended.is_set()

    def wait(self, timeout_s: float | None = None) -> Exit:
        """See `base.Process`. Raises HostFailed when the guest has gone."""
        if not self.task.ended.wait(timeout_s):
            ended = self.stop("TERM", _TIMEOUT_GRACE_S)
            with self._lock:
                self._exit = replace(ended, timed_out=True)
        return self._finish()

    def stop(self, signal: str = "TERM", grace_s: float = 2.0) -> Exit:
        number = signal_number(signal)
        if self._exit is not None:
            return self._exit
        if self.alive():
            self._channel.ask(b"K", number=self.task.number, signal=number)
            if number != signals.SIGKILL:
                self.task.ended.wait(grace_s)
        self._channel.ask(b"K", number=self.task.number, signal=0)
        if not self.task.ended.wait(_KILL_S):
            raise HostFailed(
                "a command in the guest does not die of SIGKILL", hint="stuck in the guest's kernel"
            )
        return self._finish()

    def abandon(self) -> None:
        """Mark the command as ended because its guest is gone or about to be."""
        with self._lock:
            if self._exit is None:
                wall_ns = time.monotonic_ns() - self.started_ns
                self._exit = Exit(
                    -signals.SIGKILL, wall_ns, 0, 0, 0, 0, 0, self.started_ns - self._requested_ns
                )
            self.task.ended.set()

    def _finish(self) -> Exit:
        with self._lock:
            if self._exit is not None:
                return self._exit
            ended = self.task.exit
            if ended is None:
                self.abandon()
                raise HostFailed("the guest ended while a command ran in it", hint="see its last words")
            offset_ns, _ = self._channel.clock()
            self._exit = Exit(
                code=os.waitstatus_to_exitcode(ended["status"]),
                wall_ns=max(0, ended["ns"] + offset_ns - self.started_ns),
                user_ns=ended["user_ns"],
                system_ns=ended["system_ns"],
                max_rss_bytes=ended["max_rss_bytes"],
                voluntary_switches=ended["voluntary_switches"],
                involuntary_switches=ended["involuntary_switches"],
                startup_ns=max(0, self.started_ns - self._requested_ns),
            )
            self._after(self)
            return self._exit
