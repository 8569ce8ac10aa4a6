"""A process started by contend on this host: waited for by pidfd, ended with everything it started."""

from __future__ import annotations

import contextlib
import os
import select
import signal as signals
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from resource import struct_rusage

from contend import _native
from contend.errors import BadInput, HostFailed, TrialFailed
from contend.platforms import procfs
from contend.platforms.base import Command, Exit

_TIMEOUT_GRACE_S = 1.0
_BLOCK_BYTES = 512  # of ru_inblock, getrusage(2)


@dataclass(frozen=True, slots=True)
class Confines:
    """Groups, CPUs and network namespace that a child joins before it executes its program."""

    cgroup_procs: Sequence[Path] = ()
    cpus: Sequence[int] | None = None
    netns: Path | None = None


def launch(
    command: Command,
    confines: Confines,
    marks: Mapping[str, str],
    *,
    among: Callable[[], Iterable[int]] | None = None,
    end_rest: Callable[[LocalProcess], None] | None = None,
    inherited: Mapping[str, str] = os.environ,
) -> LocalProcess:
    """Start `command`. Raises TrialFailed naming the step that failed; nothing is left behind then.

    The process, not what it forks, is killed when the calling *thread* ends (PR_SET_PDEATHSIG is per thread): call this
    from one that outlives the process. `marks` go into its environment last, after `inherited` and the
    command's own. `among` and `end_rest`: see LocalProcess.
    """
    environment = {**inherited, **command.env, **marks}
    with contextlib.ExitStack() as files:
        try:
            out, err = (open_output(path) for path in (command.stdout, command.stderr))
            files.callback(os.close, out)
            files.callback(os.close, err)
            pid, started_ns = _native.spawn(
                list(command.argv),
                environment,
                str(command.cwd),
                out,
                err,
                [str(p) for p in confines.cgroup_procs],
                None if confines.cpus is None else list(confines.cpus),
                None if confines.netns is None else str(confines.netns),
            )
        except (OSError, ValueError) as error:
            what = command.argv[0] if command.argv else "(empty command)"
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise TrialFailed(f"{what}: {reason}", hint=start_hint(error)) from error
    return LocalProcess(pid, started_ns, among=among, end_rest=end_rest)


def run(
    argv: Sequence[str], within_s: float, cwd: Path, environment: Mapping[str, str] = os.environ
) -> tuple[Exit, str]:
    """Run a program to its end and return its exit and its output. After `within_s`, or where this is interrupted, it is
    ended with all that it has started. Raises TrialFailed where it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="contend-said-") as folder:
        output = Path(folder) / "said"
        process = launch(Command(tuple(argv), cwd, output, output), Confines(), {}, inherited=environment)
        try:
            ended = process.wait(within_s)
        except BaseException:
            process.stop("KILL", 0.0)
            raise
        return ended, output.read_text(encoding="utf-8", errors="replace")


def open_output(path: Path) -> int:
    """Open and empty an output file and return its descriptor. O_APPEND: stdout and stderr may be one file, and neither
    end then overwrites the other."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)


def start_hint(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is it installed, and does its directory exist? (`contend doctor` lists what is missing)"
    if isinstance(error, PermissionError):
        return "this user may not do that; `contend doctor` says what needs which right"
    return ""


def signal_number(name: str) -> int:
    """The number of `'TERM'` or `'SIGTERM'`. Raises BadInput.

    >>> signal_number("TERM")
    15
    """
    try:
        return int(signals.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError as error:
        raise BadInput(f"'{name}' is no signal", hint="write it like TERM, INT or KILL") from error


class LocalProcess:
    """A child of this process that leads its own session. See `base.Process`.

    `on_exit`, if set before the end, is called once with the pid after the process has ended and before it is
    reaped: /proc/PID/schedstat, stat and io of the zombie can still be read then.

    `among` names the pids that can be its children (those of a cgroup; default: all of /proc), so that ending
    it is quick on a host with thousands of processes. `end_rest` is called at a forced end, to end what neither
    the process group nor the family tree holds any more.
    """

    def __init__(
        self,
        pid: int,
        started_ns: int,
        *,
        among: Callable[[], Iterable[int]] | None = None,
        end_rest: Callable[[LocalProcess], None] | None = None,
    ) -> None:
        self.pid = pid
        self.started_ns = started_ns
        self.on_exit: Callable[[int], None] | None = None
        self._among = among or procfs.all_pids
        self._end_rest = end_rest
        self._lock = threading.RLock()
        self._reaped: list[tuple[int, int, struct_rusage]] = []
        self._ended_ns: int | None = None
        self._exit: Exit | None = None
        self._pidfd = os.pidfd_open(pid)
        # Its only work is the time stamp: whoever waits may come late, and the wall time must not.
        self._watcher = threading.Thread(target=self._stamp_end, name=f"end of {pid}", daemon=True)
        self._watcher.start()

    def _stamp_end(self) -> None:
        self._ended_ns = _native.wait_end(self._pidfd)

    def wait(self, timeout_s: float | None = None) -> Exit:
        """See `base.Process`. The end is stamped when it happens, however late this is called."""
        if self._exit is None and not self.ends_within(timeout_s):
            return self._end(signals.SIGTERM, _TIMEOUT_GRACE_S, timed_out=True)
        return self._reap()

    def stop(self, signal: str = "TERM", grace_s: float = 2.0) -> Exit:
        number = signal_number(signal)
        if self._exit is not None:
            return self._exit
        return self._end(number, grace_s)

    def alive(self) -> bool:
        return self._exit is None and not self.ends_within(0)

    def ends_within(self, timeout_s: float | None) -> bool:
        """True once the process has ended (it is a zombie then, or reaped)."""
        if self._ended_ns is not None:
            return True
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            # A signal ends the poll; its handler runs here, so Ctrl-C is an exception and not a lost process.
            if poller.poll(left_ms):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def _end(self, number: int, grace_s: float, *, timed_out: bool = False) -> Exit:
        """Signal the group, wait, kill; then end what left the group, as seen while the parent was there."""
        family = procfs.descendants(self.pid, self._among())
        identities = {pid: status.start_ticks for pid in family if (status := procfs.stat(pid)) is not None}
        self._signal_group(number)
        if number != signals.SIGKILL:
            self._signal_group(signals.SIGCONT)  # who is stopped (Ctrl-Z, SIGSTOP) would not hear of it
            self.ends_within(grace_s)
            if grace_s > 0 and self.ends_within(0):
                self._group_gone_within(min(grace_s, 0.2))
        self._signal_group(signals.SIGKILL)
        if not self.ends_within(10.0):
            raise HostFailed(
                f"process {self.pid} does not die of SIGKILL",
                hint="it is stuck in the kernel (state D); look at its /proc/PID/stack and the storage below",
            )
        procfs.kill_until_gone(lambda: self._survivors(identities))
        if self._end_rest is not None:
            self._end_rest(self)
        ended = self._reap()
        if timed_out:
            with self._lock:
                ended = self._exit = replace(ended, timed_out=True)
        return ended

    def _signal_group(self, number: int) -> None:
        # The group keeps its number while it has a member or the leader is not reaped: no stranger is hit.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _group_gone_within(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while procfs.in_session(self.pid, self._among()) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _survivors(self, identities: Mapping[int, int]) -> set[int]:
        pids = procfs.in_session(self.pid, self._among())
        for pid, start in identities.items():
            now = procfs.stat(pid)
            if now is not None and now.start_ticks == start and now.state not in "ZX":
                pids |= {pid} | procfs.descendants(pid, self._among())
        return pids - {self.pid}

    def _reap(self) -> Exit:
        with self._lock:
            if self._exit is not None:
                return self._exit
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self._watcher.join()
            hook, self.on_exit = self.on_exit, None
            if hook is not None:
                hook(self.pid)
            if not self._reaped:
                # One call from C to C: an interrupt cannot come between the reaping and the keeping.
                self._reaped.extend(map(os.wait4, (self.pid,), (0,)))
            _, status, usage = self._reaped[0]
            self._exit = _exit(status, usage, (self._ended_ns or time.monotonic_ns()) - self.started_ns)
            os.close(self._pidfd)
            return self._exit


def _exit(status: int, usage: struct_rusage, wall_ns: int) -> Exit:
    return Exit(
        code=os.waitstatus_to_exitcode(status),
        wall_ns=wall_ns,
        user_ns=round(usage.ru_utime * 1e9),
        system_ns=round(usage.ru_stime * 1e9),
        # Linux folds the resident set from before execve in (fs/exec.c, setmax_mm_hiwater_rss), so a small
        # program shows at least the tool's own size at the fork.
        max_rss_bytes=usage.ru_maxrss * 1024,
        voluntary_switches=usage.ru_nvcsw,
        involuntary_switches=usage.ru_nivcsw,
        read_bytes=usage.ru_inblock * _BLOCK_BYTES,
        major_faults=usage.ru_majflt,
    )
