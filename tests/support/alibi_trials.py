"""A trial of a load that puts one resource to its limit: recorded, judged, and whether others disturbed it."""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi
from contend.errors import HostFailed
from contend.probes.client import ProbeProcess
from support.alibi_loads import KINDS, Draw, Ground

QUIET_S, SETTLE_S, PHASE_S = 1.5, 1.0, 4.0
# Others' CPU time during the phase, beyond which the truth may not be what was injected: below it none of their threads
# can have been full for long. Decided without the verdict.
DISTURBED_CPUS = 0.75
# What the hypervisor took, beyond which a core may have been at that limit for a part of the phase that matters.
STOLEN_CPUS = limits.STEAL * limits.MAIN_SHARE
QUIET_CPUS = 0.4
# Draws of one kind until others have left the CPUs alone for one, each after at most PATIENCE_S of waiting for that.
ATTEMPTS, PATIENCE_S = 6, 20.0
# Their truth is that cores are idle; the others' resource is at its limit whoever else uses the CPUs.
NEED_IDLE = frozenset({"thread", "locks"})
INTERVALS_MS = (100, 250, 500, 1000)


@dataclass(frozen=True)
class Trial:
    """What was injected, what the verdict was, and what others did to the CPUs meanwhile.

    told: the resources that were said to be at their limit for a part of the phase that matters, of themselves.
    own_cpus, foreign_cpus, stolen_cpus: CPUs' worth of time that the loads used in the phase, that others did, and that
    the hypervisor took.
    of_stranger: the verdict names a process, and none of the loads'.
    """

    kind: str
    what: str
    truth: str
    verdict: str
    subject: str
    told: tuple[str, ...]
    interval_ms: float
    own_cpus: float
    foreign_cpus: float
    stolen_cpus: float
    of_stranger: bool
    text: str

    @property
    def right(self) -> bool:
        return self.verdict == self.truth

    @property
    def right_beside_others(self) -> bool:
        """Right on any host: where others used the CPUs these may be at their limit too, and lead."""
        return self.right or (self.disturbed and self.kind not in NEED_IDLE and self.truth in self.told)

    @property
    def disturbed(self) -> bool:
        # Who else waits for CPUs that are full does not change that they are.
        beside = self.foreign_cpus > DISTURBED_CPUS or self.stolen_cpus > STOLEN_CPUS
        return self.truth != "cpu" and (beside or self._kept_from_its_limit)

    @property
    def true_all_the_same(self) -> bool:
        """What may be said of a trial that others disturbed: what was injected; that they keep the CPUs at their limit,
        or take them, or a thread of theirs is at its own; that nothing was full, where the load itself was not."""
        of_others = self.verdict in ("cpu", "steal") or (self.verdict == "thread" and self.of_stranger)
        return self.right or of_others or (self.verdict == "idle" and self._kept_from_its_limit)

    @property
    def _kept_from_its_limit(self) -> bool:
        """A thread, or threads that take turns, that did not get the one CPU they could use."""
        return self.truth == "thread" and self.own_cpus < limits.TURNS_LEAST

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "right": self.right, "disturbed": self.disturbed}


def run_trial(draw: Draw, directory: Path, interval_ms: float, patience_s: float = PATIENCE_S) -> Trial:
    """Quiet, load, judge: the phase is the load's time without its start. patience_s: see wait_quiet."""
    with contextlib.closing(Ground(directory)) as ground:
        if draw.kind in ("disk", "memory"):
            ground.file()
        wait_quiet(patience_s)
        probe = ProbeProcess({"interval_ms": interval_ms, "host": True, "processes": True})
        time.sleep(QUIET_S)
        draw.start(ground)
        time.sleep(SETTLE_S)
        began, used = time.monotonic_ns(), ground.cpu_ns()
        time.sleep(PHASE_S)
        ended, used = time.monotonic_ns(), ground.cpu_ns() - used
        alive, said, pids = ground.alive(), ground.said(), ground.pids()
        tables = probe.stop().tables
    if not alive:
        raise HostFailed(f"the load ended early: {draw.what}", hint=said)
    recording = Recording.of_tables(tables)
    alibi = judge(recording, began, ended)
    own = used / (ended - began)
    told = {s.resource: 1 for s in alibi.saturated if not s.cause and s.share >= limits.MAIN_SHARE}
    return Trial(
        draw.kind, draw.what, draw.truth, alibi.verdict, alibi.subject, tuple(told), interval_ms, round(own, 3),
        round(busy_cpus(alibi, tables) - own, 3), round(stolen_cpus(tables, began, ended), 3),
        of_stranger(alibi.subject, pids), alibi.text,
    )  # fmt: skip


def of_stranger(subject: str, ours: set[int]) -> bool:
    """Whether it names a process by its pid, and that is none of ours."""
    found = re.search(r"\(pid (\d+)\)", subject)
    return found is not None and int(found[1]) not in ours


def undisturbed(
    kind: str,
    pick: random.Random,
    directory: Path,
    disturbed: list[Trial],
    attempts: int = ATTEMPTS,
    patience_s: float = PATIENCE_S,
) -> Trial | None:
    """The first trial of a kind in which others left the CPUs alone; None after that many attempts.

    The others are added to `disturbed`. Which is which is told by the accounting of the loads, without the verdict.
    """
    for _ in range(attempts):
        trial = run_trial(KINDS[kind](pick), directory, pick.choice(INTERVALS_MS), patience_s)
        if not trial.disturbed:
            return trial
        disturbed.append(trial)
    return None


def busy_cpus(alibi: Alibi, tables: Mapping[str, Any]) -> float:
    """CPUs' worth of busy time in the phase."""
    return (1 - alibi.idle["cpu"]) * len(np.unique(tables["cpu"]["cpu"]))


def stolen_cpus(tables: Mapping[str, Any], began: int, ended: int) -> float:
    """CPUs' worth of time that the hypervisor took in [began, ended), of CLOCK_MONOTONIC in ns."""
    table, taken = tables["cpu"], 0.0
    inside = (table["t_ns"] >= began) & (table["t_ns"] <= ended)
    for cpu in np.unique(table["cpu"]):
        steal = np.asarray(table["steal_ns"])[inside & (table["cpu"] == cpu)]
        taken += float(steal[-1] - steal[0]) if len(steal) else 0.0
    return taken / (ended - began)


def wait_quiet(patience_s: float) -> None:
    """Wait until others leave the CPUs alone, within patience: a trial that is disturbed is known by its figures."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        before, began = _busy_s(), time.monotonic()
        time.sleep(0.5)
        if (_busy_s() - before) / (time.monotonic() - began) < QUIET_CPUS:
            return


def _busy_s() -> float:
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    return (sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])) / os.sysconf("SC_CLK_TCK")
