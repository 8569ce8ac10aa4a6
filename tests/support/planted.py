"""A culprit planted among cgroups: workers that burn as told, each in a group of its own, and what a watch says.

The groups are in the v2 tree, which needs no controllers for that.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contend.contention.blame import is_neighbour
from contend.contention.watch import Watch
from contend.interrupts import Interrupts
from contend.names import PREFIX
from contend.platforms import cgroups

INTERVAL_NS = 500_000_000
SETTLE_S, LENGTH_S = 0.15, 1.6
GROUPS = 20

# Orders come as lines: CPU, part of its period that it wants to run, period in seconds.
WORKER = """
import os, select, time
duty, period = 0.0, 0.1
while True:
    wait = None if duty == 0 else period * (1 - duty)
    if select.select([0], [], [], wait)[0]:
        orders = os.read(0, 4096).decode().splitlines()
        if not orders:
            break
        cpu, duty, period = orders[-1].split()
        duty, period = float(duty), float(period)
        os.sched_setaffinity(0, {int(cpu)})
    until = time.thread_time() + duty * period
    while time.thread_time() < until:
        pass
"""


@dataclass(frozen=True)
class Draw:
    """What was planted and what was said. Shares are parts of the victim's waits for neighbours."""

    victim: int
    culprit: int
    cpu: int
    victim_duty: float
    culprit_duty: float
    named: str
    share: float
    strangers: float
    waited_s: float

    @property
    def right(self) -> bool:
        """The culprit comes first among the groups that were planted; strangers on the host are not among them."""
        return self.named == f"g{self.culprit}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "right": self.right}


@dataclass
class Workers:
    processes: list[subprocess.Popen[str]]
    directory: Path
    root: Path

    def order(self, number: int, cpu: int, duty: float, period: float = 0.01) -> None:
        pipe = self.processes[number].stdin
        assert pipe is not None
        pipe.write(f"{cpu} {duty} {period}\n")
        pipe.flush()

    def name(self, number: int) -> str:
        return f"/{self.directory.relative_to(self.root)}/g{number}"


@contextmanager
def workers(count: int = GROUPS) -> Iterator[Workers]:
    """Idle workers, each in its own cgroup; gone afterwards."""
    layout = cgroups.read_layout()
    assert layout.v2 is not None
    directory = cgroups.parents(layout.v2)[0] / f"{PREFIX}.planted-{os.getpid()}"
    made = Workers([], directory, layout.v2.root)
    try:
        for number in range(count):
            group = directory / f"g{number}"
            group.mkdir(parents=True)
            process = subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, text=True)
            made.processes.append(process)
            (group / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
        yield made
    finally:
        cgroups.remove(directory)
        for process in made.processes:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()


def draw(made: Workers, chance: random.Random) -> Draw:
    """One victim and one culprit on one CPU; two groups that burn more than either on another one, the rest light or
    idle, on any CPU."""
    cpus = sorted(os.sched_getaffinity(0))
    count = len(made.processes)
    order = chance.sample(range(count), count)
    victim, culprit, big, light = order[0], order[1], order[2:4], order[4:]
    cpu = chance.choice(cpus)
    others = [c for c in cpus if c != cpu]
    victim_duty, culprit_duty = chance.uniform(0.1, 0.9), chance.uniform(0.3, 1.0)
    made.order(victim, cpu, victim_duty, chance.uniform(0.004, 0.02))
    made.order(culprit, cpu, culprit_duty, chance.uniform(0.004, 0.02))
    for number in big:
        made.order(number, chance.choice(others), chance.uniform(0.8, 1.0))
    for number in light:
        duty = chance.choice((0.0, chance.uniform(0.002, 0.02)))
        made.order(number, chance.choice(cpus), duty, chance.uniform(0.01, 0.1))
    time.sleep(SETTLE_S)
    watch = Watch("cgroup", INTERVAL_NS)
    with Interrupts() as interrupts:
        for _ in watch.periods(interrupts, LENGTH_S):
            pass
    watch.stop()
    for number in range(count):
        made.order(number, cpu, 0.0)
    name = made.name(victim)
    row = [(c, ns) for c, ns in watch.watched.blame.culprits("cpu", name) if is_neighbour(name, c)]
    planted = [(c, ns) for c, ns in row if c.startswith(made.name(0)[:-1])]
    whole = sum(ns for _, ns in row) or 1
    named, most = planted[0] if planted else ("nobody", 0)
    return Draw(
        victim, culprit, cpu, round(victim_duty, 3), round(culprit_duty, 3), named.rpartition("/")[2],
        round(most / whole, 4), round(1 - sum(ns for _, ns in planted) / whole, 4), round(whole / 1e9, 3),
    )  # fmt: skip
