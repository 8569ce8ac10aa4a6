"""Processes as /proc shows them.

Every process contend starts carries CONTEND_RUN=<run id> in its environment, which its children inherit. It tells which
party a process of the run is, and what to list. Anybody can write it, so nothing is ended for it (`contend.platforms.kin`).
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MARKER = "CONTEND_RUN"
MEMBER_MARKER = "CONTEND_PARTY"
EXECUTING_S = 0.5  # far above what an execve takes, unless its processor is taken from it
EMPTY_LOOKS = 4
"""An environment is empty that was so in as many looks in a row: an execve may end, and the next begin, between two."""
# With hidepid=1 (proc(5)) other users' processes are listed, and what is in their directories is refused.
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
_OCTAL = re.compile(r"\\([0-3][0-7]{2})")


def unescaped(field: str) -> str:
    """Decode a path of /proc/PID/mountinfo, where blanks, tabs, line ends and backslashes are octal numbers: proc(5).

    >>> unescaped(r"/srv/a\\040b\\134c")
    '/srv/a b\\\\c'
    """
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)


def read_text(path: Path) -> str:
    """A file of /proc with names in it: bytes that are no UTF-8 as Python keeps them in file names (PEP 383)."""
    return path.read_bytes().decode(errors="surrogateescape")


def text_or_empty(path: Path) -> str:
    """A kernel's file without blanks around it; "" where it is not, as without CONFIG_PSI, or says nothing (EOPNOTSUPP)."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class ProcStat:
    """The part of /proc/PID/stat that identifies a process. `start_ticks` is since boot, in USER_HZ."""

    pid: int
    state: str
    ppid: int
    pgrp: int
    session: int
    start_ticks: int


def parse_stat(text: str) -> ProcStat:
    """Parse /proc/PID/stat; the name in parentheses may itself hold spaces and parentheses.

    >>> parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 345 1 1").start_ticks
    345
    """
    fields = text[text.rindex(")") + 2 :].split()
    return ProcStat(
        pid=int(text[: text.index(" ")]),
        state=fields[0],
        ppid=int(fields[1]),
        pgrp=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def stat(pid: int) -> ProcStat | None:
    """Read /proc/PID/stat; None when the process is gone, or hidden from this user."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace"))
    except GONE:
        return None


def processes(pids: Iterable[int] | None = None) -> Iterator[ProcStat]:
    """Processes among `pids` (default: every one that this user may see) that are alive and no zombies."""
    for pid in all_pids() if pids is None else pids:
        status = stat(pid)
        if status is not None and status.state not in "ZX":
            yield status


def cpu_times_ns(pid: int) -> tuple[int, int]:
    """(user, system) time of a live process, its threads and its waited-for children; (0, 0) when it is gone.

    In steps of a tick (10 ms): utime, stime, cutime and cstime of proc(5).
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except GONE:
        return 0, 0
    user, system, child_user, child_system = map(int, text[text.rindex(")") + 2 :].split()[11:15])
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return (user + child_user) * tick_ns, (system + child_system) * tick_ns


def until_asleep(pids: Iterable[int], within_s: float) -> bool:
    """Wait until no thread of these runs or wants to; False where one still does after that time.

    Of a thread that sleeps the kernel has added up all CPU time; of one that runs, up to its last tick.

    >>> until_asleep((), 0)
    True
    """
    watched, until = tuple(pids), time.monotonic() + within_s
    while any(wants_cpu(pid) for pid in watched):
        if time.monotonic() >= until:
            return False
        time.sleep(0.001)
    return True


def wants_cpu(pid: int) -> bool:
    """True while a thread of the process runs, or waits for a CPU."""
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
    except GONE:
        return False
    for thread in threads:
        try:
            text = (thread / "stat").read_text(encoding="utf-8", errors="replace")
        except GONE:
            continue
        if parse_stat(text).state == "R":
            return True
    return False


def all_pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def boot_id() -> str:
    """Identify this boot of the machine: a pid means nothing after the next one."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def environment(pid: int) -> list[bytes]:
    """NAME=value of the process's environment as it was started with; empty where it is gone or may not be read.

    A process amid execve(2) shows an empty one and is waited for: else a clean-up would not see what is about to run.
    """
    file = PROC / str(pid) / "environ"
    deadline = time.monotonic() + EXECUTING_S
    looks = 0
    try:
        while not (content := file.read_bytes()):
            if executing(pid):
                if time.monotonic() > deadline:
                    break
                looks = 0
                time.sleep(0.0005)
            elif (looks := looks + 1) == EMPTY_LOOKS:
                break
    except OSError:  # gone, or another user's
        return []
    return content.split(b"\0")


def marks(pid: int) -> tuple[str, str] | None:
    """Read the marks in a process's environment: (run id, member of the run); None without a mark, or if unreadable."""
    values = dict(entry.decode(errors="replace").partition("=")[::2] for entry in environment(pid))
    return (values[MARKER], values.get(MEMBER_MARKER, "")) if MARKER in values else None


def executing(pid: int) -> bool:
    """True amid execve: a program is mapped, its arguments are not yet. Kernel threads map none; others have argv[0].

    Source: begin_new_exec and create_elf_tables of Linux (fs/exec.c, fs/binfmt_elf.c).
    """
    return executable(pid) is not None and not (PROC / str(pid) / "cmdline").read_bytes()


def name(pid: int) -> str:
    """The kernel's name of the process, of at most 15 bytes; "" when it is gone."""
    try:
        return (PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
    except OSError:
        return ""


def executable(pid: int) -> str | None:
    try:
        return str((PROC / str(pid) / "exe").readlink())
    except OSError:
        return None


def ancestors(pid: int) -> set[int]:
    """The process itself and every parent above it: never to be ended by a clean-up it runs."""
    chain: set[int] = set()
    while pid > 0 and pid not in chain:
        chain.add(pid)
        status = stat(pid)
        pid = status.ppid if status else 0
    return chain


def ready_ns(pid: int) -> int:
    """Time that a process's threads have been ready for a CPU that another had, ns; 0 when it is gone (sched-stats.rst of
    Linux: the second number of schedstat). Threads that have ended are not in it."""
    return _of_schedstat(pid, 1)


def ran_ns(pid: int) -> int:
    """Time that a process's threads have run, ns, as `ready_ns` has its."""
    return _of_schedstat(pid, 0)


def _of_schedstat(pid: int, number: int) -> int:
    total = 0
    for task in (PROC / str(pid) / "task").glob("[0-9]*"):
        try:
            total += int((task / "schedstat").read_text(encoding="ascii").split()[number])
        except (OSError, IndexError, ValueError):
            continue
    return total


def effective_user(pid: int) -> int | None:
    """Effective user id of a process; None when it is gone. Its directory in /proc may be root's (proc(5), "dumpable")."""
    try:
        lines = (PROC / str(pid) / "status").read_bytes().split(b"\n")
    except GONE:
        return None
    return next((int(line.split()[2]) for line in lines if line.startswith(b"Uid:")), None)


def marked(run_id: str | None = None, *, member: str | None = None, own: bool = False) -> set[int]:
    """Pids of this user (root: of everybody) whose environment names `run_id` (None: any run) and `member` (None: any).

    own: only those with this user's rights; for root too. The caller's own ancestors are left out, so that a tool that was
    itself started by a run is not its own leftover.
    """
    spare = ancestors(os.getpid())
    pids = set()
    for process in processes():
        mark = None if process.pid in spare else marks(process.pid)
        if (
            not mark
            or (run_id is not None and mark[0] != run_id)
            or (member is not None and mark[1] != member)
        ):
            continue
        if not own or effective_user(process.pid) == os.geteuid():
            pids.add(process.pid)
    return pids


def in_session(session: int, pids: Iterable[int] | None = None) -> set[int]:
    return {p.pid for p in processes(pids) if p.session == session or p.pgrp == session}


def descendants(pid: int, pids: Iterable[int] | None = None) -> set[int]:
    """Children, their children and so on, alive now; without `pid` itself."""
    children: dict[int, list[int]] = {}
    for process in processes(pids):
        children.setdefault(process.ppid, []).append(process.pid)
    below: set[int] = set()
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            if child not in below:
                below.add(child)
                queue.append(child)
    return below


def send(pid: int, number: int) -> bool:
    """Send a signal; False when the process is gone. PermissionError passes."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def ends_within(pidfd: int, seconds: float) -> bool:
    """Wait until the process of a pidfd has ended, or so long; True where it has."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))


def kill_until_gone(find: Callable[[], Iterable[int]], timeout_s: float = 5.0) -> set[int]:
    """SIGKILL what `find` finds until it finds nothing; returns what was still there after `timeout_s`.

    Looking again after each round catches children that were forked while the last round was killed.
    """
    deadline = time.monotonic() + timeout_s
    pause = 0.001
    while True:
        left = set(find())
        for pid in left:
            send(pid, signal.SIGKILL)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
