"""Processes of a test bed, found by their control group and what contend wrote down, which no stranger can forge.

Every process of a bed carries a mark in its environment: a variable that names the bed's directory. Anybody can carry it,
so nothing is ended for the mark alone. A process is the bed's where

- it is in the control group that was made for the bed, below which it and all that it forks stay;
- or it carries the mark and is in a control group of a run of contend's that started it;
- or, where this user may make no groups, its pid and start time were written down, in the state directory that only this
  user can write, or it descends from such a process or is in its session (`contend.platforms.kin`).
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import names
from contend.errors import HostFailed
from contend.platforms import cgroups, kin, procfs
from contend.store import state
from contend.testbed import children

_FOLDER = "beds"
_LOOK_S = 0.02
_PROOF_S = 5.0
_OUT_S = 2.0
_LEFT_S = 600.0  # a group that is empty for so long is of a bed that nobody took down
# The shell becomes the program: the pid stays, and nothing runs before it is in the group. What is not there is not
# started in the group, which would be left with nothing in it.
_ENTER = 'command -v "$1" >/dev/null || exec "$@"; echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Members:
    """Processes of the bed in `directory`, which carry the variable `mark`.

    >>> beds = Members("DOCTEST_BED", Path("/tmp/doctest-bed"))
    >>> process = beds.popen(["sleep", "9"], {"PATH": os.defpath})
    >>> beds.find() == {process.pid} == set(beds.end())
    True
    >>> process.wait()
    -15
    """

    mark: str
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variable that every process of the bed carries."""
        return {self.mark: str(self.directory.resolve())}

    def popen(self, command: Sequence[str], env: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process of the bed; options: as subprocess.Popen takes them."""
        entering = self._entering()
        process = subprocess.Popen([*entering, *command], env={**env, **self.environment}, **options)
        if entering:
            group = Path(entering[-1]).parent
            _wait_until_in(group, process)
            if (
                process.poll() is not None
            ):  # it could not be started, or was quick: who gives up now ends nothing
                _remove(group)
        else:
            self._write_down([process.pid])
        return process

    def run(
        self, command: Sequence[str], env: Mapping[str, str], **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Run a process of the bed to its end; options: as subprocess.run takes them."""
        with self.starting():
            entering = self._entering()
            done = subprocess.run(
                [*entering, *command], env={**env, **self.environment}, check=False, **options
            )
            if entering:  # it may have been the first of the bed, and the last
                _remove(Path(entering[-1]).parent)
            return done

    def find(self) -> set[int]:
        """Pids of the bed that live; this process and those above it are left out."""
        pids = set().union(*(cgroups.members(group) for group in self._groups()))
        pids |= kin.Recorded(None, kin.read_file(self._file())).find()
        pids |= {pid for pid in self.marked() - pids if _in_group_of_a_run(pid)}
        return {process.pid for process in procfs.processes(pids)} - procfs.ancestors(os.getpid())

    def marked(self) -> set[int]:
        """Pids whose environment names the bed, as anybody's can; this process and those above it are left out."""
        wanted = f"{self.mark}={self.directory.resolve()}".encode()
        pids = {p.pid for p in procfs.processes() if wanted in procfs.environment(p.pid)}
        return pids - procfs.ancestors(os.getpid())

    def end(self, term_s: float = 5.0) -> list[int]:
        """End all processes of the bed and return their pids. Idempotent. Raises HostFailed for a process that does not
        die."""
        pids = sorted(self.find())
        end(self.find, term_s)
        self.forget()
        return pids

    def forget(self) -> None:
        """Remove the bed's group and its list of processes, and reap its children, once nothing of it lives."""
        for group in self._groups():
            _remove(group)
        self._file().unlink(missing_ok=True)
        children.reap()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Record processes of the bed while the block brings them up. Without groups, orphans that they leave become this
        process's children, and are written down."""
        if self._group() is not None or _in_group_of_a_run(os.getpid()):
            yield
            return
        before, others = kin.reap_orphans(True), kin.below(os.getpid())
        end = threading.Event()
        written: set[kin.Identity] = set()

        def watch() -> None:
            while not end.wait(_LOOK_S):
                with suppress(OSError):
                    written.update(self._look(written))

        thread = threading.Thread(target=watch, name="members of a bed", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
            written.update(self._look(written))
            kin.reap_orphans(before)
            children.adopt(pid for pid, _, _ in written if pid not in others)

    def _look(self, known: set[kin.Identity]) -> list[kin.Identity]:
        wanted = f"{self.mark}={self.directory.resolve()}".encode()
        below = kin.below(os.getpid())
        return self._write_down((pid for pid in below if wanted in procfs.environment(pid)), known)

    def _write_down(self, pids: Iterable[int], known: Iterable[kin.Identity] = ()) -> list[kin.Identity]:
        if _in_group_of_a_run(os.getpid()):
            return []  # what the run's group has needs no more
        new = [one for pid in pids if (one := kin.identity(pid)) is not None and one not in known]
        if new:
            state.private(_FOLDER)
            kin.append(self._file(), new)
        return new

    def _entering(self) -> list[str]:
        """The beginning of a command that puts it in the bed's group; nothing where that is not needed, or cannot be."""
        if _in_group_of_a_run(os.getpid()):  # it is accounted there, and ended with the run
            return []
        group = self._group()
        return [] if group is None else ["/bin/sh", "-c", _ENTER, str(group / "cgroup.procs")]

    def _group(self) -> Path | None:
        """The bed's group, there when this returns; None where this user may make none."""
        for group in self._candidates():
            if group.is_dir() and _own(group):
                return group
            _sweep(group.parent)
            try:
                group.mkdir()
                # The only proof that it can be entered.
                command = ["/bin/sh", "-c", _ENTER, str(group / "cgroup.procs"), "/bin/true"]
                if (
                    subprocess.run(command, capture_output=True, timeout=_PROOF_S, check=False).returncode
                    == 0
                ):
                    return group
            except (OSError, subprocess.TimeoutExpired):
                pass
            _remove(group)
        return None

    def _groups(self) -> list[Path]:
        return [group for group in self._candidates() if group.is_dir() and _own(group)]

    def _candidates(self) -> list[Path]:
        """Where its group may be: one for each hierarchy that accounts, at the top of what is this user's, so that all of
        this user's processes look at the same place."""
        layout = cgroups.read_layout()
        hierarchies = [one for one in (layout.v2, layout.v1.get("cpuacct")) if one is not None]
        tops = [
            min(parents, key=lambda p: len(p.parts)) for h in hierarchies if (parents := cgroups.parents(h))
        ]
        return [top / f"{names.PREFIX}-bed.{self._hash()}" for top in tops]

    def _file(self) -> Path:
        return state.folder().with_name(_FOLDER) / self._hash()

    def _hash(self) -> str:
        return hashlib.sha256(f"{self.mark}={self.directory.resolve()}".encode()).hexdigest()[:16]


def end(find: Callable[[], Iterable[int]], term_s: float) -> None:
    """End the processes that `find` finds: by SIGTERM, and what is left after `term_s` seconds by SIGKILL.

    Raises HostFailed for a process that does not die.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + term_s
    while (left := set(find())) and time.monotonic() < deadline:
        # Leaders first: they end their workers, and would start others in their place.
        leaders = {process.pid for process in procfs.processes(left) if process.session == process.pid}
        for pid in (leaders or left) - signalled:
            procfs.send(pid, signal.SIGTERM)
        signalled |= leaders or left
        time.sleep(0.1)
    if stuck := procfs.kill_until_gone(find):
        raise HostFailed(f"processes {sorted(stuck)} do not die of SIGKILL", hint="stuck in the kernel")


def _remove(group: Path) -> None:
    """Remove a group without members; one with members stays."""
    until = time.monotonic() + _OUT_S
    while group.is_dir() and not cgroups.members(group) and time.monotonic() < until:
        with suppress(OSError):  # EBUSY: the last one is on its way out
            group.rmdir()
            return
        time.sleep(0.005)


def _sweep(top: Path) -> None:
    """Remove groups of beds that ended by themselves, and whose directories may be gone: nothing else finds them."""
    for group in top.glob(f"{names.PREFIX}-bed.*"):
        with suppress(OSError):  # another one removes it, or something has entered it
            if _own(group) and time.time() - group.stat().st_mtime > _LEFT_S and not cgroups.members(group):
                group.rmdir()


def _wait_until_in(group: Path, process: subprocess.Popen[Any]) -> None:
    """Else a bed that is ended at this moment would not find it. Returns when it has ended, too."""
    until = time.monotonic() + _PROOF_S
    while process.pid not in cgroups.members(group) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.0005)


def _in_group_of_a_run(pid: int) -> bool:
    """True if it is in a control group of one of contend's runs that this user, or root, has made."""
    try:
        text = procfs.read_text(procfs.PROC / str(pid) / "cgroup")
        layout = cgroups.parse_layout(procfs.read_text(Path("/proc/self/mountinfo")), text)
    except (OSError, ValueError):  # it has ended
        return False
    for hierarchy in layout.hierarchies():
        for group in (hierarchy.own, *hierarchy.own.parents):
            if group.name.startswith(f"{names.PREFIX}.") and group.is_relative_to(hierarchy.root):
                return _own(group)
    return False


def _own(group: Path) -> bool:
    try:
        return group.stat().st_uid in {0, os.geteuid()}
    except OSError:
        return False
