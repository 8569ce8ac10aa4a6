"""A guard for bystanders: a run that costs others on the host more than was allowed is ended within seconds.

It looks at what the run records anyway (probes.bystanders) and, where one is named, asks a URL of theirs. Where a limit is
passed it says why and interrupts the run, which then goes the way of Ctrl-C: trial ended, everything torn down, rows kept.
"""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection

from contend.errors import BadInput
from contend.probes.bystanders import Bystanders, Waits
from contend.probes.client import Drained
from contend.studies.guard import Guard
from contend.units import format_duration

LOOK_S = 0.5
# An answer that is still not there after so many limits is not waited for.
_PATIENCE = 4
_MOST_BYTES = 1 << 20  # of an answer
_DIRECTLY = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # a proxy's answer says nothing of a neighbour


class Guardian:
    """Watches from `begin` to `close`; `tripped` says which limit was passed, "" none."""

    def __init__(self, guard: Guard, own: Callable[[], Collection[str]]) -> None:
        self._guard = guard
        self._bystanders = Bystanders(guard.lasting, os.getpid(), own)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.tripped = ""

    def begin(self) -> None:
        """Ask the URL for the first time, and from then on. Raises BadInput where it is too slow by itself."""
        if not self._guard.probe:
            return
        seconds, why = ask(self._guard.probe, self._guard.slower_than * _PATIENCE / 1e9)
        if why or seconds * 1e9 > self._guard.slower_than:
            reason = why or f"it took {format_duration(seconds * 1e9)}"
            raise BadInput(
                f"guard.probe: {self._guard.probe} does not answer in time before there is any load: {reason}",
                hint=f"guard.slower_than is {format_duration(self._guard.slower_than)}",
            )
        self._thread = threading.Thread(target=self._ask, name="contend-guard", daemon=True)
        self._thread.start()

    def see(self, drained: Drained) -> None:
        """Check rows of the recording, as they come."""
        waits = self._bystanders.add(drained.coded)
        if waits is not None and (why := passed(waits, self._guard)):
            self._trip(why)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _ask(self) -> None:
        """Timed from when each request was due: one that is late because of the one before is late."""
        guard, due, bad_since = self._guard, time.monotonic(), None
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            _, why = ask(guard.probe, guard.slower_than * _PATIENCE / 1e9)
            now = time.monotonic()
            if not why and (now - due) * 1e9 > guard.slower_than:
                why = f"it took {format_duration((now - due) * 1e9)}, {format_duration(guard.slower_than)} is allowed"
            if not why:
                bad_since = None
            elif bad_since is None:
                bad_since = due
            elif (now - bad_since) * 1e9 >= guard.lasting:
                return self._trip(f"{guard.probe} did not answer in time: {why}")
            due = max(due + guard.every / 1e9, now - guard.every / 1e9)
        return None

    def _trip(self, why: str) -> None:
        with self._lock:
            if self.tripped or self._stop.is_set():
                return
            self.tripped = why
        signal.pthread_kill(
            threading.main_thread().ident or 0, signal.SIGINT
        )  # whatever it waits in, it comes back


def passed(waits: Waits, guard: Guard) -> str:
    """Name the first limit that others are beyond; "" for none.

    >>> from contend.studies.guard import Guard
    >>> passed(Waits(2.0, 0.5, "postgres (pid 7)", None, ""), Guard(run_delay=0.2))
    'others waited for a CPU 50 % of the time that they wanted one (20 % is allowed), postgres (pid 7) most'
    >>> passed(Waits(2.0, 0.1, "postgres (pid 7)", 0.1, "/a"), Guard())
    ''
    """
    if guard.run_delay is not None and (waits.run_delay or 0.0) > guard.run_delay:
        return (
            f"others waited for a CPU {100 * (waits.run_delay or 0.0):.0f} % of the time that they wanted one "
            f"({100 * guard.run_delay:.0f} % is allowed), {waits.delayed} most"
        )
    if guard.stall is not None and (waits.stall or 0.0) > guard.stall:
        return (
            f"cgroup {waits.stalled} stood still for memory or a disk {100 * (waits.stall or 0.0):.0f} % of the time "
            f"({100 * guard.stall:.0f} % is allowed)"
        )
    return ""


def ask(url: str, timeout_s: float) -> tuple[float, str]:
    """Seconds until a GET was answered, and what was wrong with that, "" nothing.

    >>> ask("http://127.0.0.1:1/", 1.0)[1]
    'Connection refused'
    """
    began, why = time.monotonic(), ""
    try:
        with _DIRECTLY.open(url, timeout=timeout_s) as answer:
            left = _MOST_BYTES
            # The time-out is of one look at the socket: an answer that comes in drops would never pass it.
            while left > 0 and (piece := answer.read1(left)):
                left -= len(piece)
                if time.monotonic() - began > timeout_s:
                    raise TimeoutError("timed out")
    except urllib.error.HTTPError as error:
        why = f"status {error.code}" if error.code >= 500 else ""
    except (OSError, ValueError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        why = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return time.monotonic() - began, why
