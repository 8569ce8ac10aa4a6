"""Ctrl-C, SIGTERM and SIGHUP: the first one ends a run in an orderly way, further ones cannot stop its tear-down.

A budget that is spent ends a run in the same way (`Interrupts.alarm`), whatever the run waits for: a command that hangs, an
image that is being built.

While held, the signals are also blocked, and programs started meanwhile inherit that: a second Ctrl-C reaches
the whole foreground process group and would otherwise end the `podman rm` that cleans up.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AT_ONCE_S = 1e-3  # a timer of no time is one that is not set
Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


def is_interrupt(error: BaseException | None) -> bool:
    """True if an interrupt caused this error: an extension that is being imported makes another error of one.

    >>> try:
    ...     raise ImportError("an extension") from KeyboardInterrupt()
    ... except ImportError as error:
    ...     is_interrupt(error), is_interrupt(error.__cause__), is_interrupt(OSError())
    (True, True, False)
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def new_threads_take_none() -> Iterator[None]:
    """Block all signals meanwhile, so that threads which libraries start take none from then on.

    As numpy does when it is imported: a signal to the process goes to any thread that has it unblocked, and where the main
    thread has it blocked to wait for it, that is the end of the process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupts:
    """Raises KeyboardInterrupt once, at the first of SIGNALS, unless held. For the main thread.

    A signal that was ignored stays ignored, as `nohup` and a shell's `&` mean it.
    """

    def __init__(self) -> None:
        self._held = self._postponed = self._pending = False
        self.raised = False  # what fails after that may fail of it
        self.expired = False  # and it was the alarm that raised it
        self._before: dict[signal.Signals, Handler] = {}
        self._mask: set[signal.Signals] | None = None

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.hold()
        self.release()

    def alarm(self, seconds: float) -> None:
        """Interrupt after that many seconds, at once where they are none, never where they are infinite.

        The timer is this process's alone: programs that are started do not inherit it.
        """
        if signal.SIGALRM not in self._before:
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.0 if math.isinf(seconds) else max(_AT_ONCE_S, seconds))

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGALRM and not (self._held or self._pending):
            self.expired = True
        if self._postponed:
            self._pending = True
        elif not self._held:
            self._raise()

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Raise only after the block, even if that fails: for foreign code that makes another error, or a half file, of an
        interrupt."""
        self._postponed = True
        try:
            yield
        finally:
            self._postponed = False
            if self._pending and not self._held:
                self._raise()

    def _raise(self) -> NoReturn:
        # Held before raising: a second one must not break the unwinding that this one begins.
        self.hold()
        self.raised = True
        raise KeyboardInterrupt

    def hold(self) -> None:
        """Put interrupts off from here on. Idempotent."""
        self._held = True
        if signal.SIGALRM in self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        if self._mask is None:
            self._mask = {signal.Signals(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)}

    def release(self) -> None:
        """Restore signals as they were before `__enter__`; what came while held is dropped. Idempotent."""
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            self._mask = None
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    @contextmanager
    def hold_afterwards(self) -> Iterator[None]:
        """Hold when the block is left, however that happens."""
        try:
            yield
        finally:
            self.hold()
