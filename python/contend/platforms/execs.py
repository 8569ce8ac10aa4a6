"""A command inside a running container: how it is started, timed and ended."""

from __future__ import annotations

import json
import os
import re
import signal as signals
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from contend.platforms import bundles, procfs
from contend.platforms.base import Exit
from contend.platforms.engines import Engine
from contend.platforms.processes import LocalProcess, signal_number

_TIMEOUT_GRACE_S = 1.0
_START_TIMEOUT_S = 30.0
# Stamps before and after, CPU time of the command and its children from `times`, and the command's status.
# bash reads the clock without a fork ($EPOCHREALTIME); a plain shell asks date. The shell outlives TERM to
# write its stamp, and keeps its own remarks ("Killed") out of the command's stderr. exec in a subshell runs
# the program `true`, never the shell's own.
_SCRIPT = """f=$1; shift
trap : TERM INT QUIT HUP
exec 3>&2 2>/dev/null
echo "start $$ ${EPOCHREALTIME:-$(date +%s%N)}" >"$f"
(exec "$@" 2>&3 3>&-)
c=$?
echo "end $c ${EPOCHREALTIME:-$(date +%s%N)}" >>"$f"
times >>"$f"
exit $c"""


def wrapper(shell: str, stamp: Path, argv: Sequence[str]) -> list[str]:
    return [shell, "-c", _SCRIPT, "contend", str(stamp), *argv]


def exec_argv(
    engine: Engine,
    name: str,
    bundle: bundles.Bundle,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    number: int,
) -> list[str]:
    """Arguments of the engine's `exec`. Values of variables stay out of its arguments, which all can read in /proc."""
    if engine.low_level:
        file = bundle.path / f"process-{number}.json"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(bundles.oci_process(argv, env, str(cwd)), out)
        return [*engine.command, "exec", "--process", str(file), name]
    given = [
        part for key in env for part in ("--env", key)
    ]  # a name alone: the value is taken from the client
    return [*engine.command, "exec", *given, "--workdir", str(cwd), name, *argv]


def parse_stamps(text: str) -> tuple[int | None, int | None, int | None, int, int]:
    """(start_ns, end_ns, status, user_ns, system_ns) of a stamp file; None for what is not there.

    >>> parse_stamps("start 7 1.5\\nend 3 2.5\\n0m0.001s 0m0.002s\\n0m1.500s 0m0.250s\\n")
    (1500000000, 2500000000, 3, 1500000000, 250000000)
    """
    start = re.search(r"^start \d+ (\S+)$", text, re.MULTILINE)
    end = re.search(r"^end (\d+) (\S+)$", text, re.MULTILINE)
    times = re.findall(r"^(\d+)m([0-9.]+)s (\d+)m([0-9.]+)s$", text, re.MULTILINE)
    user = system = 0
    if len(times) == 2:  # the shell's own, then its children's
        minutes, seconds, system_minutes, system_seconds = times[1]
        user = round((int(minutes) * 60 + float(seconds)) * 1e9)
        system = round((int(system_minutes) * 60 + float(system_seconds)) * 1e9)
    return (
        _clock_ns(start[1]) if start else None,
        _clock_ns(end[2]) if end else None,
        int(end[1]) if end else None,
        user,
        system,
    )


def _clock_ns(text: str) -> int | None:
    """`seconds.microseconds` of $EPOCHREALTIME (a comma in some locales) or nanoseconds of `date +%s%N`."""
    seconds, dot, fraction = text.replace(",", ".").partition(".")
    if not seconds.isdigit() or (dot and not fraction.isdigit()):
        return None
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9]) if dot else int(seconds)


class ContainerProcess:
    """See `base.Process`. Made when the command has started inside; `pid` is the command's, seen from here.

    Exit.wall_ns and the CPU times are the command's inside; startup_ns is the time from asking the engine to
    the command's start. max_rss_bytes and the switches are 0: a container's command does not tell them. A
    status above 128 is taken as death by a signal, as shells report it.
    """

    def __init__(
        self,
        client: LocalProcess,
        stamp: Path,
        members: Callable[[], set[int]],
        end_rest: Callable[[ContainerProcess], None],
    ) -> None:
        self.started_ns = client.started_ns
        self.on_exit: Callable[[int], None] | None = None
        self._client, self._stamp, self._members, self._end_rest = client, stamp, members, end_rest
        self._realtime_offset_ns = (
            time.time_ns() - time.monotonic_ns()
        )  # the stamps inside are CLOCK_REALTIME
        self._shell = 0
        self._exit: Exit | None = None
        self._find_shell(_START_TIMEOUT_S)

    @property
    def pid(self) -> int:
        shell = self._find_shell()
        children = sorted(procfs.descendants(shell, self._members())) if shell else []
        return children[0] if children else shell or self._client.pid

    def alive(self) -> bool:
        return self._exit is None and self._client.alive()

    def wait(self, timeout_s: float | None = None) -> Exit:
        if self._exit is None:
            if not self._client.ends_within(timeout_s):
                ended = self.stop("TERM", _TIMEOUT_GRACE_S)
                self._exit = replace(ended, timed_out=True)
            else:
                self._finish()
        return self._finish()

    def stop(self, signal: str = "TERM", grace_s: float = 2.0) -> Exit:
        number = signal_number(signal)
        if self._exit is not None:
            return self._exit
        shell = self._find_shell()
        family: dict[int, int] = {}

        def living() -> set[int]:
            """The command and what it started, known by pid and start time even after its parent has gone."""
            among = self._members()
            seen = procfs.in_session(shell, among) | procfs.descendants(shell, among) if shell else set()
            for process in procfs.processes(seen):
                family[process.pid] = process.start_ticks
            alive = {p.pid for p in procfs.processes(family) if family[p.pid] == p.start_ticks}
            return alive - {shell}

        for pid in living():
            status = procfs.stat(pid)
            if status is not None and status.pgrp == shell:
                procfs.send(pid, number)
                procfs.send(pid, signals.SIGCONT)  # who is stopped would not hear of it
        if number != signals.SIGKILL:
            self._client.ends_within(grace_s)
        procfs.kill_until_gone(living)
        if not self._client.ends_within(2.0):  # the shell writes its stamp now; or it never started
            if shell:
                procfs.send(shell, signals.SIGKILL)
            self._client.stop("KILL", 0.0)
        self._end_rest(self)
        return self._finish()

    def _find_shell(self, within_s: float = 0.0) -> int:
        """Find the wrapper shell's pid on this host: it writes its pid inside, and NSpid in its status has both."""
        deadline = time.monotonic() + within_s
        while not self._shell:
            text = self._stamp.read_text(encoding="ascii") if self._stamp.exists() else ""
            match = re.match(r"start (\d+) ", text)
            if match:
                self._shell = next((p for p in self._members() if _inner(p) == int(match[1])), 0)
            if self._shell or time.monotonic() >= deadline or self._client.ends_within(0):
                break
            time.sleep(0.002)
        return self._shell

    def _finish(self) -> Exit:
        if self._exit is None:
            client = self._client.wait()
            text = self._stamp.read_text(encoding="ascii") if self._stamp.exists() else ""
            start_ns, end_ns, status, user_ns, system_ns = parse_stamps(text)
            code = client.code if status is None else -(status - 128) if 128 < status <= 192 else status
            startup_ns = wall_ns = 0
            if start_ns is not None:
                startup_ns = max(0, start_ns - self._realtime_offset_ns - self.started_ns)
                wall_ns = (end_ns - start_ns) if end_ns is not None else max(0, client.wall_ns - startup_ns)
            self._exit = Exit(code, wall_ns, user_ns, system_ns, 0, 0, 0, startup_ns, client.timed_out)
        return self._exit


def _inner(pid: int) -> int:
    """The pid of a process in the innermost pid namespace it is in; 0 when it is gone."""
    try:
        status = (procfs.PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except procfs.GONE:
        return 0
    match = re.search(r"^NSpid:\t(?:\d+\t)*(\d+)$", status, re.MULTILINE)
    return int(match[1]) if match else 0
