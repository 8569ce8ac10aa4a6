"""The head of a result: by which command, at which commit, on which machine, and who else used its CPUs meanwhile.

The load average counts what measures too, so it tells little while something runs. Hence the CPU time of everybody else:
what /proc/stat counts as busy, less what the recording process, its descendants and the kernel's own threads took. The
recording process is the reaper of its descendants (PR_SET_CHILD_SUBREAPER, prctl(2)): one whose parent ends stays below it,
and so does the CPU time of one that ends with its parent between two looks. What a container engine's daemon has started
is known by its cgroup. What could not be traced so counts as somebody else's.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contend.environment import fingerprint
from contend.platforms.kin import reap_orphans

ROOT = Path(__file__).parents[2]

EVERY_S = 5.0
"""A look takes some 10 to 25 ms of CPU time, by the number of processes on the host."""
MOST_FOREIGN = 0.05
"""Of all CPU time, on average: beyond that a result is disturbed; also what the hypervisor may take."""
MOST_LOAD = 1.0
"""A CPU, before it began, where the CPU time of others was not recorded."""

_MACHINE = ("cpu", "cpus", "memory_gib", "os", "kernel", "virtualised", "python")
_CGROUPS = ("contend", "libpod", "docker")
_TICK = os.sysconf("SC_CLK_TCK")
_KTHREADD = 2


@dataclass(slots=True)
class Recording:
    """What is known of a measurement that goes on; `head()` may be asked for more than once."""

    command: str
    began: float
    date: str
    load_before: float
    commit: str
    dirty: bool
    sampler: _Others
    stolen_s: float
    """Of all CPUs since the host came up, when it began."""

    def head(self, *, seed: int | None = None, command: str = "") -> dict[str, Any]:
        """The `made` of a data file."""
        others, seconds = self.sampler.so_far(), time.monotonic() - self.began
        return {
            "command": command or self.command,
            "date": self.date,
            "commit": self.commit,
            "dirty": self.dirty,
            "machine": machine(),
            "load_before": round(self.load_before, 2),
            "load_max": round(others.load_max, 2),
            "foreign_cpus": others.mean and round(others.mean, 3),
            "foreign_cpus_max": others.most and round(others.most, 2),
            "stolen_cpus": round((_stolen_s() - self.stolen_s) / max(seconds, 1.0), 3),
            "seconds": round(seconds),
            "seed": seed,
        }


def machine() -> dict[str, Any]:
    """No name of a host or a user."""
    found = fingerprint()
    return {key: found[key] for key in _MACHINE if key in found}


_now: Recording | None = None


@contextmanager
def recording(command: str = "") -> Iterator[Recording]:
    """Look at the host until the end of the block. One within another is the outer one."""
    global _now  # noqa: PLW0603 - writers far down in a campaign ask for it by current()
    if _now is not None:
        yield _now
        return
    with _Others() as sampler:
        _now = Recording(
            command or _command(),
            time.monotonic(),
            datetime.now(UTC).isoformat(timespec="minutes").replace("+00:00", "Z"),
            os.getloadavg()[0],
            commit(),
            dirty(),
            sampler,
            _stolen_s(),
        )
        try:
            yield _now
        finally:
            _now = None


def current() -> Recording:
    """Of the block that is running."""
    if _now is None:
        raise LookupError("nothing is being recorded: measure within results.record.recording()")
    return _now


def commit() -> str:
    """This tree's, short. CONTEND_TEST_COMMIT names it where the tree is not a repository."""
    return os.environ.get("CONTEND_TEST_COMMIT") or _git("rev-parse", "--short", "HEAD").strip() or "unknown"


def dirty() -> bool:
    """Whether a file that git knows was changed since; results themselves do not count."""
    return bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results").strip())


def disturbed(made: Mapping[str, Any]) -> str:
    """Why a result is to be believed less, or nothing. Where nothing was recorded, nothing is said."""
    if made.get("disturbed"):
        return str(made["disturbed"])
    cpus = (made.get("machine") or {}).get("cpus") or 1
    foreign, load = made.get("foreign_cpus"), made.get("load_before")
    if (stolen := made.get("stolen_cpus") or 0.0) > MOST_FOREIGN * cpus:
        return f"the hypervisor took {stolen:.2f} of {cpus} CPUs meanwhile (limit {MOST_FOREIGN * cpus:g})"
    if foreign is not None:
        return (
            f"others used {foreign:.2f} of {cpus} CPUs meanwhile (limit {MOST_FOREIGN * cpus:g})"
            if foreign > MOST_FOREIGN * cpus
            else ""
        )
    if load is not None and load > MOST_LOAD * cpus:
        return f"load {load:.1f} on {cpus} CPUs before it began (limit {MOST_LOAD * cpus:g})"
    return ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def _command() -> str:
    """As it was typed, paths of this machine left out."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    program = Path(sys.argv[0]).resolve()
    if program.is_relative_to(ROOT) and program.suffix == ".py":
        words[:1] = ["python", str(program.relative_to(ROOT))]
    return shlex.join(word.replace(f"{ROOT}/", "") for word in words)


@dataclass(frozen=True, slots=True)
class Seen:
    """CPUs that others used: the mean, and the most between two looks; unknown before the second look."""

    mean: float | None
    most: float | None
    load_max: float


@dataclass(slots=True)
class _Others:
    """A thread that looks every EVERY_S."""

    every_s: float = EVERY_S
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _ours: dict[tuple[int, int], bool] = field(default_factory=dict)
    _last: tuple[float, float, float] | None = None
    _foreign_s: float = 0.0
    _wall_s: float = 0.0
    _most: float | None = None
    _load: float = 0.0
    _reaped: bool = False
    """Whether this process was the reaper of orphans before."""

    def __enter__(self) -> _Others:
        self._reaped = reap_orphans(True)
        self._look()
        self._thread = threading.Thread(target=self._run, name="results-others", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        reap_orphans(self._reaped)

    def so_far(self) -> Seen:
        self._look()
        with self._lock:
            mean = self._foreign_s / self._wall_s if self._wall_s else None
            return Seen(mean, self._most, self._load)

    def _run(self) -> None:
        while not self._stop.wait(self.every_s):
            self._look()

    def _look(self) -> None:
        with self._lock:
            self._load = max(self._load, os.getloadavg()[0])
            at, busy, known = time.monotonic(), _busy_s(), self._known_s()
            if self._last is not None and at - self._last[0] >= 1:
                wall = at - self._last[0]
                # What an ended daemon of ours had used is missing from now on, and no use of others.
                foreign = max(0.0, busy - self._last[1] - max(0.0, known - self._last[2]))
                self._foreign_s += foreign
                self._wall_s += wall
                self._most = max(self._most or 0.0, foreign / wall)
            elif self._last is not None:
                return
            self._last = (at, busy, known)

    def _known_s(self) -> float:
        """CPU time of what is ours and of the kernel's threads, their ended children's included."""
        rows = dict(_processes())
        mine, total = os.getpid(), 0.0
        for pid, row in rows.items():
            if row.parent == _KTHREADD or self._is_ours(pid, row, rows, mine):
                total += row.cpu_s
        for pid, row in rows.items():
            # What this program started itself is in its group or leads one, and has somebody who waits for it.
            if row.ended and row.parent == mine and row.group not in (pid, os.getpgrp()):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return total

    def _is_ours(self, pid: int, row: _Row, rows: Mapping[int, _Row], mine: int) -> bool:
        key = (pid, row.start)
        if key not in self._ours:
            self._ours[key] = False  # stays where parents go round in a circle, which they do not
            parent = rows.get(row.parent)
            self._ours[key] = (
                pid == mine
                or (parent is not None and self._is_ours(row.parent, parent, rows, mine))
                or _is_in_our_groups(pid)
            )
        return self._ours[key]


def _is_in_our_groups(pid: int) -> bool:
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(name in groups for name in _CGROUPS)


@dataclass(frozen=True, slots=True)
class _Row:
    parent: int
    group: int
    ended: bool
    """And not waited for."""
    start: int
    cpu_s: float


def _processes() -> Iterator[tuple[int, _Row]]:
    """proc(5): after the name in brackets, which may hold anything, the state is field 3."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            text = Path(f"/proc/{entry.name}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        ticks = sum(int(fields[at]) for at in (11, 12, 13, 14))
        yield (
            int(entry.name),
            _Row(int(fields[1]), int(fields[2]), fields[0] == "Z", int(fields[19]), ticks / _TICK),
        )


def _busy_s() -> float:
    """Of all CPUs; neither idle nor waiting for I/O, nor what the hypervisor took. Guests are in user time already."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        user, nice, system, _, _, irq, soft = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + soft) / _TICK


def _stolen_s() -> float:
    """Of all CPUs, since the host came up."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        return int(file.readline().split()[8]) / _TICK
