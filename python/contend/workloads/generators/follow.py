"""Follows a process that runs already: `python -m contend.workloads.generators follow PID --for TIME --out DIR`.

Writes `follow.json`, the figures of the workload `process`, and `evidence.json`, what the process did and waited for, which
a trial takes for its victim's. The process is only read.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from contend.errors import BadInput, ContendError, TrialFailed
from contend.platforms import procfs
from contend.platforms.quotas import QuotaWatch
from contend.probes.evidence import FOLLOWED, add_stolen, held_s, of_tasks
from contend.probes.observed import Evidence, Observations, Observed, put
from contend.probes.rundelay import RunDelay
from contend.probes.snapshot import Snapshot
from contend.units import parse_duration_ns
from contend.workloads.generators.verbs import failed

LEAST_CPU_S = 0.005
"""Who computes less in a trial does too little for its waits to be told from chance."""
_QUOTAS_S, _FAMILY_S = 0.1, 1.0
"""Between two looks at quotas; and for who has been started meanwhile, which reads of every process of the host."""

_HELD_BACK = (
    Observed.RUN_DELAY,
    Observed.WAITED_FILE_LOCK,
    Observed.WAITED_SYNC,
    Observed.WAITED_READ,
    Observed.WAITED_WRITE,
    Observed.WAITED_COMPLETION,
    Observed.WAITED_PAGE,
)
"""Waits in which it could have gone on, had others let it."""


def main(arguments: Sequence[str]) -> int:
    """Follow the process and return the exit code."""
    parser = argparse.ArgumentParser(prog="follow", description="Follow a process that runs already.")
    parser.add_argument("pid", type=int)
    parser.add_argument("--for", dest="length", required=True, metavar="TIME")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    given = parser.parse_args(arguments)
    try:
        evidence = follow((given.pid,), parse_duration_ns(given.length) / 1e9)
        figures = figures_of(evidence)
    except ContendError as error:
        return failed(error)
    write(given.out, evidence)
    (given.out / "follow.json").write_text(json.dumps(figures), encoding="utf-8")
    return 0


def write(out: Path, evidence: Evidence) -> None:
    """Write evidence that a trial takes for its victim's."""
    named = {str(name): value for name, (value, _) in evidence.items()}
    (out / FOLLOWED).write_text(json.dumps(named), encoding="utf-8")


def follow(pids: Sequence[int], length_s: float) -> Evidence:
    """Follow processes and their descendants for so long, of which the first has to go on. Raises BadInput, TrialFailed."""
    pid = pids[0]
    try:
        handle = os.pidfd_open(pid)
    except (OSError, OverflowError):
        raise BadInput(f"no process has the number {pid}", hint="pgrep NAME prints numbers") from None
    try:
        if _is_kernels(pid):
            raise BadInput(
                f"process {pid} is a thread of the kernel", hint="name one of the processes that it works for"
            )
        cpus = sorted(os.sched_getaffinity(pid))
        delay, quotas = RunDelay(None, cpus=None), QuotaWatch()
        began = due = time.monotonic()
        family: set[int] = set()
        delay.follow(*pids)
        first = Snapshot.take()
        try:
            while (left := began + length_s - time.monotonic()) > 0:
                if time.monotonic() >= due:
                    due, family = time.monotonic() + _FAMILY_S, _family(pids)
                quotas.look(family)
                if select.select([handle], [], [], min(left, _QUOTAS_S))[0]:
                    raise TrialFailed(
                        f"process {pid} ended while it was followed", hint="follow one that goes on"
                    )
            quotas.look(_family(pids))
            last = Snapshot.take()
        finally:
            took_s = time.monotonic() - began
            seen = delay.stop()
    finally:
        os.close(handle)
    assert seen is not None
    evidence = of_tasks(seen, took_s)
    # A CPU that went or came meanwhile has no difference.
    add_stolen(evidence, first, last, [cpu for cpu in cpus if cpu in first.cpus and cpu in last.cpus])
    throttled = quotas.throttling()
    if throttled.held_s is not None:
        put(evidence, Observed.THROTTLED, throttled.held_s)
        held = held_s(Observations(evidence), len(cpus))
        if held is not None:
            put(evidence, Observed.HELD, held)
    worked = sum(evidence[name][0] for name in (Observed.CPU, *_HELD_BACK) if name in evidence)
    put(evidence, Observed.MEASURED, worked)
    return evidence


def _is_kernels(pid: int) -> bool:
    """True for a thread of the kernel's. Raises BadInput for a process that this user may not see."""
    try:
        return procfs.executable(pid) is None and not Path(f"/proc/{pid}/cmdline").read_bytes()
    except PermissionError:
        raise BadInput(
            f"process {pid} is another user's, and hidden from this one (/proc is mounted with hidepid)",
            hint="as that user, or as root",
        ) from None


def _family(pids: Sequence[int]) -> set[int]:
    return set(pids).union(*(procfs.descendants(pid) for pid in pids))


def figures_of(evidence: Evidence) -> dict[str, float]:
    """Figures of a trial. Raises TrialFailed for a process that did next to nothing."""
    cpu = evidence[Observed.CPU][0]
    if cpu < LEAST_CPU_S:
        raise TrialFailed(
            f"the process used {cpu * 1e3:.1f} ms of CPU time in {evidence[Observed.WALL][0]:.1f} s: too little to tell"
            " what it waits for",
            hint="follow it while it has work, or for longer: --set measure.trial=30s",
        )
    ready = evidence[Observed.RUN_DELAY][0]
    return {"stretch": evidence[Observed.MEASURED][0] / cpu, "ready": (cpu + ready) / cpu}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
