"""Where tasks were in their code when they blocked, by the time until they ran again: the table sched_stack.

Sleeping on purpose is in it as well as waiting for a lock or a disk: only the calls tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import duckdb

from contend.store.directory import RunDirectory
from contend.store.series import open_series
from contend.text.shape import Count, Shape
from contend.units import NS_PER_S

MOST = 50_000  # different stacks read: what took longest
UNKNOWN = "[unknown]"
# A subject is NAME:PID or NAME:PID/THREAD:TID (crates/probe/src/sched.rs); names hold colons and slashes too.
_WITHOUT_PIDS = {
    "process": r"regexp_replace(subject, '^(.*):\d+$', '\1')",
    "thread": r"regexp_replace(subject, '^(.*?):\d+/(.*):\d+$', '\1/\2')",
}
_PID = r"try_cast(regexp_extract(subject, '^.*?:(\d+)(/.*:\d+)?$', 1) AS BIGINT)"
# Every stack ends in the scheduler, and every system call begins alike: no word of it tells one from another.
_SCHEDULER = {"schedule_[k]", "__schedule_[k]"}
_ENTRY = {
    "entry_SYSCALL_64_after_hwframe_[k]",
    "do_syscall_64_[k]",
    "el0t_64_sync_[k]",
    "el0t_64_sync_handler_[k]",
}
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Stack(Shape):
    """Where tasks blocked, all processes of one name (or of one cgroup) together."""

    subject: str
    frames: Annotated[tuple[str, ...], "outermost first; NAME_[k] is in the kernel"]
    off_cpu_s: Annotated[float, "time until they ran again, added up"]
    count: Annotated[Count, "times"]

    @property
    def calls(self) -> tuple[str, ...]:
        """The frames that say something, for people: addresses without a name as one.

        >>> Stack("x", ("0x1", "0x2", "libc.so.6+0x85f16", "futex_wait_[k]", "schedule_[k]"), 1, 1).calls
        ('[unknown]', 'libc.so.6+0x85f16', 'futex_wait_[k]')
        """
        names: list[str] = []
        for frame in self.frames:
            name = UNKNOWN if _ADDRESS.fullmatch(frame) else frame
            if name in _ENTRY or name in _SCHEDULER or (name == UNKNOWN and names[-1:] == [UNKNOWN]):
                continue
            names.append(name)
        return tuple(names)


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stacks of a recording, the longest first. `of_command`: only those of the command's processes."""

    stacks: Sequence[Stack]
    of_command: bool = False


def read_stacks(run: RunDirectory, *, everyone: bool = False) -> Stacks:
    """Read the stacks of the command's processes, or, without a command or with `everyone`, of all; empty where none
    were recorded."""
    with duckdb.connect() as connection:
        tables = open_series(connection, run.series)
        if "sched_stack" not in tables:
            return Stacks(())
        recording = run.sample()
        by, pid = recording.get("sched", ""), recording.get("pid")
        if pid is not None and not everyone and "process" in tables and by != "cgroup":
            stacks = tuple(_grouped(connection, by, _of_family(int(pid))))
            if stacks:
                return Stacks(stacks, of_command=True)
        return Stacks(tuple(_grouped(connection, by, "")))


def _of_family(pid: int) -> str:
    """A process and all that it begot, whether or not those between them still live."""
    return f"""WHERE {_PID} IN (
        WITH RECURSIVE family(pid) AS (
            SELECT {pid}::BIGINT UNION SELECT p.pid FROM process p JOIN family f ON p.ppid = f.pid
        ) SELECT pid FROM family)"""


def _grouped(connection: duckdb.DuckDBPyConnection, by: str, where: str) -> Iterator[Stack]:
    rows: list[tuple[Any, ...]] = connection.execute(
        f"""SELECT {_WITHOUT_PIDS.get(by, "subject")} AS program, stack, sum(off_cpu_ns) AS ns, sum(count)
            FROM sched_stack {where} GROUP BY 1, 2 ORDER BY ns DESC, 1, 2 LIMIT {MOST}"""
    ).fetchall()
    for program, stack, ns, count in rows:
        yield Stack(str(program), tuple(str(stack).split(";")) if stack else (), ns / NS_PER_S, int(count))


def longest(stacks: Sequence[Stack], most: int) -> tuple[Stack, ...]:
    """Stacks with the most time, where those that people read as the same (`calls`) are one."""
    merged: dict[tuple[str, tuple[str, ...]], Stack] = {}
    for stack in stacks:
        key = stack.subject, stack.calls
        known = merged.get(key, Stack(*key, 0.0, 0))
        merged[key] = Stack(*key, known.off_cpu_s + stack.off_cpu_s, known.count + stack.count)
    return tuple(sorted(merged.values(), key=lambda s: (-s.off_cpu_s, s.subject, s.frames))[:most])


def folded(stacks: Sequence[Stack]) -> Iterator[str]:
    """Lines `program;outermost;…;innermost MICROSECONDS`, which flamegraph.pl, speedscope and others read.

    >>> list(folded([Stack("a;b", ("main", "read_[k]"), 0.0015, 3), Stack("c", (), 1e-7, 1)]))
    ['a:b;main;read_[k] 1500']
    """
    for stack in stacks:
        micros = round(stack.off_cpu_s * 1e6)
        if micros:
            yield f"{';'.join((stack.subject.replace(';', ':'), *stack.frames))} {micros}".replace("\n", " ")
