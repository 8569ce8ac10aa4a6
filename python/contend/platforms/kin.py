"""Processes of a run without control groups: its descendants, written to a file while the run lives.

A contend without groups becomes the reaper of its descendants (PR_SET_CHILD_SUBREAPER, prctl(2)): none of them gets out
of its family tree while it lives, however often it forks. Their pids, with the moments at which they started, are kept in
the state directory, where nobody else can write. After a crash those that are still the same are ended with what has come
of them. What the environment of a process says ends nobody: anybody can write it.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from contend import files, names
from contend.errors import BadInput
from contend.platforms import cgroups, procfs
from contend.store import state

_SUBREAPER, _GET_SUBREAPER = 36, 37  # PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER of <sys/prctl.h>
# What is forked, leaves its session and loses its parent between two looks before a crash is not found again: so looks are
# as frequent as this share of a CPU allows.
_LEAST_S, _MOST_S, _SHARE = 0.05, 1.0, 0.005
_ZOMBIE_S = 10.0
_FULL_BYTES, _MOST_BYTES = 1 << 20, 1 << 24

_GONE = -1  # in the place of a session: it is the user's now
Identity = tuple[int, int, int]
"""pid, start in ticks since the boot, and the session if one of the run's has made it, else 0."""


class Kin:
    """The descendants of this process, for as long as a platform without groups stands.

    >>> import subprocess
    >>> kin = Kin("doctest-run")
    >>> child = subprocess.Popen(["sleep", "9"])
    >>> child.pid in kin.look()
    True
    >>> child.kill(); _ = child.wait(); kin.close()
    """

    def __init__(self, run_id: str) -> None:
        self._path = _file(run_id)
        self._known: dict[int, Identity] = {}
        self._added: set[int] = set()
        self._let_go: dict[int, Identity] = {}
        self._waited_for: set[int] = set()
        self._zombies: dict[int, float] = {}  # since when, monotonic seconds
        self._lock = threading.Lock()
        self._end = threading.Event()
        state.private(self._path.parent.name)
        reap_orphans(True)
        self._thread = threading.Thread(target=self._watch, name="kin", daemon=True)
        self._thread.start()

    def add(self, pid: int) -> None:
        """Add a process that another program, such as libvirt, started for this run."""
        with self._lock:
            self._added.add(pid)
        self.look()

    def waits_for(self, pid: int) -> None:
        """Leave the reaping of this child to its caller. The child is written down at once."""
        with self._lock:
            self._waited_for.add(pid)
            # It alone: a look at all descendants for each one that is started costs more the more there are.
            if (one := self._identity(pid)) is not None and self._known.get(pid) != one:
                with suppress(OSError):
                    self._keep([one])
                    self._known[pid] = one

    def let_go(self, pids: Iterable[int]) -> None:
        """Leave these and their descendants to the user from now on: not written down, and not ended after a crash."""
        with self._lock:
            self._let_go |= {pid: one for pid in pids if (one := self._identity(pid)) is not None}
            self._write(*_below(os.getpid()))

    def alive(self) -> set[int]:
        """Descendants and added processes that live now, found among all processes, so that none is missed. All are
        written down when this returns."""
        with self._lock:
            return self._write(procfs.descendants(os.getpid()), set())

    def look(self) -> set[int]:
        """Find the descendants, write down changes, and return their pids."""
        with self._lock:
            return self._write(*_below(os.getpid()))

    def _write(self, below: set[int], zombies: set[int]) -> set[int]:
        """Under the lock."""
        wanted = below | self._added
        identities = {pid: one for pid, one in self._known.items() if pid not in wanted and _same(one)}
        for pid in wanted:
            if (one := self._identity(pid)) is not None:
                identities[pid] = one
        self._added &= identities.keys()
        gone = self._users(identities)
        identities = {pid: one for pid, one in identities.items() if pid not in gone}
        new = [(pid, start, _GONE) for pid, (_, start, _) in gone.items() if pid in self._known]
        new += [one for pid, one in identities.items() if self._known.get(pid) != one]
        with suppress(OSError):  # a full disk: tried again at the next look
            self._keep(new)
            self._known = identities
        self._reap(zombies)
        return set(identities)

    def _users(self, identities: dict[int, Identity]) -> dict[int, Identity]:
        """Processes that were let go and still live, their descendants, and the sessions that those have made."""
        if not self._let_go:
            return {}
        self._let_go = {pid: one for pid, one in self._let_go.items() if _same(one)}
        sessions = {session for _, _, session in self._let_go.values()} - {0}
        below = {child for pid in self._let_go for child in _below(pid)[0]}
        own_sessions = {session for _, _, session in self._known.values()}
        for pid, one in identities.items():
            # An orphan with a session of its own, seen for the first time: maybe theirs, and so left to the user.
            strange = (
                pid not in self._known and one[2] not in own_sessions | {0} and pid not in self._waited_for
            )
            if pid in below or one[2] in sessions or (strange and _parent(pid) == os.getpid()):
                self._let_go[pid] = one
        return dict(self._let_go)

    def _keep(self, new: list[Identity]) -> None:
        if new and append(self._path, new) > _FULL_BYTES:  # mostly of those that have ended
            files.write(self._path, _text([*self._known.values(), *new]).encode(), mode=files.PRIVATE)

    def close(self) -> None:
        """Stop watching; what still lives stays written down. Idempotent."""
        if not self._end.is_set():
            self._end.set()
            self._thread.join()
            reap_orphans(False)
            if not self.look():
                self._path.unlink(missing_ok=True)

    def _watch(self) -> None:
        pause_s = _LEAST_S
        while not self._end.wait(pause_s):
            began = time.thread_time()
            with suppress(OSError):
                self.look()
            pause_s = min(_MOST_S, max(_LEAST_S, (time.thread_time() - began) / _SHARE))

    def _identity(self, pid: int) -> Identity | None:
        seen = identity(pid)
        # The session of a libvirt is libvirt's.
        return (pid, seen[1], 0) if seen is not None and pid in self._added else seen

    def _reap(self, zombies: set[int]) -> None:
        """Orphans that came to this process and have ended. Children of its own it has in its session, or waits for."""
        now = time.monotonic()
        orphans = {
            pid
            for pid in zombies - self._waited_for
            if (one := procfs.stat(pid)) and one.session != os.getsid(0)
        }
        self._zombies = {pid: self._zombies.get(pid, now) for pid in orphans}
        for pid, since in self._zombies.items():
            if now - since > _ZOMBIE_S:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


class Recorded:
    """The processes of a run after a crash, found again and again while they are being ended."""

    def __init__(self, run_id: str | None, more: Iterable[Identity] = ()) -> None:
        """run_id: None has nothing but `more`, which are known from elsewhere."""
        self._known = {one[0]: one for one in (*([] if run_id is None else read(run_id)), *more)}
        self._spare = procfs.ancestors(os.getpid())
        self._sessions: set[int] = set()

    def find(self) -> set[int]:
        """Pids of the run that live: those written down, their descendants, and the rest of their sessions."""
        now = {process.pid: process for process in procfs.processes()}
        alive = {pid for pid, one in self._known.items() if pid in now and now[pid].start_ticks == one[1]}
        # A session's number is not given out again while it has a member: with one of the run's in it, it is the run's.
        sessions = {now[pid].session for pid in alive if self._known[pid][2] == now[pid].session}
        # One that was found a moment ago has lost its recorded members since, and been left the children that they forked.
        sessions |= {session for session in self._sessions if session not in now or session in alive}
        sessions -= {now[pid].session for pid in self._spare if pid in now}
        self._sessions = sessions
        pids = alive | {process.pid for process in now.values() if process.session in sessions}
        for pid in alive:
            theirs = now[pid].session if now[pid].session not in sessions else 0
            for child in procfs.descendants(pid, now) & now.keys():
                pids.add(child)
                own = 0 if now[child].session == theirs else now[child].session
                self._known.setdefault(child, (child, now[child].start_ticks, own))
        return pids - self._spare


def of_run(run_id: str) -> set[int]:
    """Pids that are certainly a run's: in its control groups, or recorded here."""
    grouped: set[int] = set()
    wanted = names.run_group(run_id)
    for group in cgroups.find(cgroups.read_layout()):
        if group.name in (wanted, f"{wanted}.limits", f"{wanted}.containers"):
            grouped |= cgroups.members(group)
    return (grouped | Recorded(run_id).find()) - procfs.ancestors(os.getpid())


def read(run_id: str) -> list[Identity]:
    """Read the processes that a contend of this boot wrote down of a run; nothing where there are none, or it is damaged."""
    return read_file(_file(run_id))


def identity(pid: int) -> Identity | None:
    """Identify a process: (pid, start in ticks since boot, session); None where it has ended. The session of this
    process may be a user's terminal."""
    status = procfs.stat(pid)
    if status is None or status.state in "ZX":
        return None
    return pid, status.start_ticks, 0 if status.session == os.getsid(0) else status.session


def append(path: Path, new: Sequence[Identity]) -> int:
    """Write processes down in a file of the state directory, and say how many bytes it has then. Raises OSError.

    Those of an earlier boot go. A kill of this process leaves the file as it is: no fsync, beside measured disks.
    """
    with suppress(FileNotFoundError), path.open("rb") as file:
        if file.readline(64).rstrip() != procfs.boot_id().encode():
            path.unlink()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        text = _text(new)
        os.write(fd, (text if os.fstat(fd).st_size == 0 else text.partition("\n")[2]).encode())
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _text(processes: Iterable[Identity]) -> str:
    lines = "".join(f"{pid} {start} {session}\n" for pid, start, session in processes)
    return f"{procfs.boot_id()}\n{lines}"


def read_file(path: Path) -> list[Identity]:
    """Read the processes written down in a file in this boot; nothing where there are none, or it is damaged."""
    try:
        boot, *lines = files.read_inside(path, most=_MOST_BYTES).split(b"\n")
    except (OSError, BadInput):
        return []
    if boot.decode(errors="replace") != procfs.boot_id():
        return []
    identities: dict[int, Identity] = {}
    for line in lines:
        with suppress(ValueError):  # torn
            pid, start, session = map(int, line.split())
            identities[pid] = (pid, start, session)
    return [one for one in identities.values() if one[2] != _GONE]


def _file(run_id: str) -> Path:
    return state.folder().with_name("processes") / names.check_name("run id", run_id)


def _parent(pid: int) -> int:
    status = procfs.stat(pid)
    return 0 if status is None else status.ppid


def _same(one: Identity) -> bool:
    status = procfs.stat(one[0])
    return status is not None and status.start_ticks == one[1] and status.state not in "ZX"


def below(pid: int) -> set[int]:
    """Pids of a process's descendants. One that is missed while another ends is seen at the next look."""
    return _below(pid)[0]


def _below(pid: int) -> tuple[set[int], set[int]]:
    """Descendants of a process, and those of its own children that have ended and were not waited for.

    By the lists of children, which cost nothing on a host with thousands of processes; one that is missed while another
    ends (proc(5)) is seen at the next look.
    """
    if not (procfs.PROC / "self/task" / str(threading.get_native_id()) / "children").exists():
        return procfs.descendants(pid), set()  # a kernel without CONFIG_PROC_CHILDREN
    descendants: set[int] = set()
    queue, first = [pid], _children(pid)
    while queue:
        new = _children(queue.pop()) - descendants
        descendants |= new
        queue += new
    return descendants, {child for child in first if (one := procfs.stat(child)) and one.state == "Z"}


def _children(pid: int) -> set[int]:
    pids: set[int] = set()
    with suppress(OSError):  # it has ended
        for task in (procfs.PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                pids.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return pids


def reap_orphans(on: bool) -> bool:
    """Make this process the parent of orphans below it, or not; True if it was before. If the kernel refuses (never
    since Linux 3.4), orphans go to init as ever."""
    library, before = ctypes.CDLL(None, use_errno=True), ctypes.c_int(0)
    library.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    library.prctl(_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0)
    return bool(before.value)
