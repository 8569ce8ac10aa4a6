"""What the kernel's own tracer saw of processes, as a reference for what is recorded of them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.prerequisites import need

EVENTS = ("sched_process_fork", "sched_process_free")
FORK = re.compile(r"sched_process_fork: comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)$", re.M)
FREE = re.compile(r"-(\d+) +\[\d+\] .* sched_process_free: comm=.* pid=(\d+) prio=")
INIT = Path("/proc/1/task")
KIB_A_CPU = 8192  # of events, a hundred bytes each


@dataclass
class Seen:
    """Who was made by whom, and of whom the kernel let go."""

    place: Path

    def descendants(self, pid: int) -> set[int]:
        """Of all who were forked meanwhile."""
        found = {pid}
        for parent, child in FORK.findall(self._text()):  # in order of time
            if int(parent) in found:
                found.add(int(child))
        return found - {pid}

    def freed(self) -> set[int]:
        """Those whose `sched_process_free` came where a BPF program is told of it. It comes in an interrupt; and an init
        that may not be traced, as in some sandboxes, was seen to keep BPF and perf from all that comes upon it."""
        init = {thread.name for thread in INIT.iterdir()}
        return {int(pid) for upon, pid in FREE.findall(self._text()) if upon not in init}

    def _text(self) -> str:
        return (self.place / "trace").read_text(encoding="utf-8", errors="replace")


@contextmanager
def traced() -> Iterator[Seen]:
    """An instance of the kernel's tracer (Documentation/trace/ftrace.rst) of our own, while the body runs."""
    place = Path(f"/sys/kernel/tracing/instances/contend-test-{os.getpid()}")
    need(os.geteuid() == 0, "the kernel's tracer needs root")
    if not place.parent.exists():  # it is mounted by who first wants it
        subprocess.run(("mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"), check=False)
    need(place.parent.exists(), "the kernel's tracer in /sys/kernel/tracing")
    place.mkdir()
    try:
        (place / "buffer_size_kb").write_text(str(KIB_A_CPU))
        for event in EVENTS:
            (place / "events/sched" / event / "enable").write_text("1")
        yield Seen(place)
    finally:
        place.rmdir()
