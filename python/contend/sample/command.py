"""A command in the foreground: its streams untouched, its signals passed on, its end told as it was.

It stays in our process group, so that the terminal treats the two as one: Ctrl-C and Ctrl-Z reach it directly. A
signal that somebody sends to us alone is passed on; one that came from the terminal is not, it would come twice.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from contend.errors import BadInput

PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# si_code of a signal that the kernel itself sent, as a terminal's Ctrl-C: sigaction(2).
_SI_KERNEL = 0x80
# Python ignores them, and a program started by it would: signal.h of CPython's Modules/posixmodule.c (restore_signals).
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)


class Signals:
    """Takes PASSED_ON and SIGCHLD one by one, on request, instead of letting them interrupt.

    A signal that was ignored stays ignored, as `nohup` and a shell's `&` mean it. For the main thread; a thread that was
    started before must have them blocked (`contend.interrupts.new_threads_take_none`).
    """

    def __enter__(self) -> Signals:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        taken = {s for s in PASSED_ON if signal.getsignal(s) is not signal.SIG_IGN}
        self._taken = taken | {signal.SIGCHLD}
        self.mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        while signal.sigtimedwait(self._taken, 0) is not None:
            pass  # a second Ctrl-C, while the first one's work is being done, asks for nothing more
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask_before)

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """Unblock the signals in this thread for a moment: for starting a program that is to have them."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask_before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def wait(self, seconds: float) -> signal.struct_siginfo | None:
        """The next signal; None when none came in time."""
        return signal.sigtimedwait(self._taken, max(0.0, seconds))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it used with those of its children that it waited for."""

    status: int  # as the shell tells it: 128 + N after signal N
    wall_ns: int
    user_ns: int
    system_ns: int
    max_rss_bytes: int


class Followed:
    """A process that somebody else started. Raises BadInput where there is none."""

    def __init__(self, pid: int) -> None:
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise BadInput(
                f"no process has the number {pid}", hint="pgrep NAME prints the numbers of those called NAME"
            ) from None

    def has_ended(self) -> bool:
        return bool(select.select([self._fd], [], [], 0)[0])


class Foreground:
    """A running command, in the terminal's foreground."""

    def __init__(
        self, words: Sequence[str], signals: Signals, environ: Mapping[str, str] | None = None
    ) -> None:
        """Start it, with our environment if it is given none. Raises BadInput when there is no such program."""
        program = shutil.which(words[0])
        if program is None:
            raise BadInput(
                f"there is no program '{words[0]}'", hint="give the command as its words: -- make -j4 test"
            )
        self._began_ns = time.monotonic_ns()
        try:
            self.pid = os.posix_spawn(
                program,
                list(words),
                os.environ if environ is None else environ,
                setsigmask=signals.mask_before,
                setsigdef=_RESTORED,
            )
        except OSError as error:
            raise BadInput(
                f"cannot start '{words[0]}': {error.strerror}",
                hint="a script needs its first line (#!/bin/sh); or give it to one: -- sh SCRIPT",
            ) from error
        self.ended: Ended | None = None

    def has_ended(self) -> bool:
        """True if the command has ended; does not wait for it."""
        if self.ended is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.ended = Ended(
                    code if code >= 0 else 128 - code,
                    time.monotonic_ns() - self._began_ns,
                    round(usage.ru_utime * 1e9),
                    round(usage.ru_stime * 1e9),
                    usage.ru_maxrss * 1024,
                )
        return self.ended is not None

    def pass_on(self, what: signal.struct_siginfo) -> None:
        """Send the command a signal, unless the terminal did already."""
        if self.ended is None and what.si_code != _SI_KERNEL:
            os.kill(self.pid, what.si_signo)
