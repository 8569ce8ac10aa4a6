"""State of a bed: its services, their processes, and whether they answer or report."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from contend.errors import ContendError
from contend.platforms import procfs
from contend.testbed.openstack import daemons, reports
from contend.testbed.openstack.bed import Bed, answers
from contend.testbed.openstack.cloud import shape_of
from contend.testbed.openstack.shape import services
from contend.testbed.rabbit import bed as rabbit

_SILENT_S = 60


@dataclass(frozen=True, slots=True)
class Stands:
    """State of one service, a row of `status`."""

    service: str
    state: str
    """ "up", "no answer" (of its port), "silent" (has not reported for a minute), "ended" (though nobody asked it to)."""
    pid: int
    """That of its leader; 0 if it has ended, though workers of it may be left."""
    processes: int
    port: int | None
    memory_bytes: int
    """Of its processes, what they share counted once (PSS)."""
    cpu_s: float
    """Since they were started."""
    log: Path


def status(bed: Bed) -> list[Stands]:
    """Every service that is up, or should be; none if the bed is down."""
    pids: dict[str, list[int]] = {}
    for pid, service in bed.processes().items():
        pids.setdefault(service, []).append(pid)
    if broker_pids := rabbit.pids(bed.broker):
        pids["rabbitmq"] = sorted(broker_pids)
    if not pids:
        return []
    shape = shape_of(bed)
    expected = services(bed, shape)
    names = [*("mariadb", "rabbitmq"), *expected]
    names += sorted(set(pids) - set(names))
    ages, broker = _ages(bed), rabbit.load(bed.broker)
    rows = []
    for name in names:
        port = bed.ports["mariadb"] if name == "mariadb" else None
        if name in expected:
            port = expected[name].port
        own = sorted(pids.get(name, []))
        # The broker is not started as the others are, and its port mapper outlives it.
        leader = (own or [0])[0] if name == "rabbitmq" else (bed.leader(name) or (0, ""))[0]
        state = "up" if leader else "ended"
        if leader and not (
            broker and broker.answers if name == "rabbitmq" else port is None or answers(port)
        ):
            state = "no answer"
        elif leader and ages.get(name, 0) > _SILENT_S:
            state = "silent"
        log = bed.broker / "node-0/broker.log" if name == "rabbitmq" else bed.logs / f"{name}.log"
        cpu_ns = sum(sum(procfs.cpu_times_ns(pid)) for pid in own)
        rows.append(
            Stands(name, state, leader, len(own), port, sum(map(_memory, own)), round(cpu_ns / 1e9, 1), log)
        )
    return rows


def _ages(bed: Bed) -> dict[str, int]:
    if shutil.which("mariadb") is None or not answers(bed.ports["mariadb"]):
        return {}
    try:
        return reports.ages(bed, daemons.base_environment(bed))
    except ContendError:  # no schemas yet
        return {}


def _memory(pid: int) -> int:
    try:
        text = (procfs.PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii")
    except OSError:  # it has ended
        return 0
    kib = next((line.split()[1] for line in text.splitlines() if line.startswith("Pss:")), "0")
    return int(kib) << 10
