"""The host's timelines during a run, for a chart: as those of a recording, in at most POINTS steps.

Times are seconds since the first trial began (CLOCK_MONOTONIC). A counter that went backwards (a reboot, a
wrap) gives no point rather than a wrong one; a column or a file that is not there gives no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contend.report.sample_series import opened
from contend.report.steps import CPU_STATES, PRESSURES, Step
from contend.units import NS_PER_S

POINTS = 360  # steps a chart can show on a wide screen; more only makes the page heavy


@dataclass(frozen=True, slots=True)
class Timelines:
    """Lines by chart: `cpu` in CPUs, `queue` in threads, `pressure` in % of the time, `disk_queue` in
    requests, `iops` in operations a second, `network` in MB/s; by program `consumers` in CPUs, `delay` in tasks,
    `disk_users` in MB/s."""

    cpu: Sequence[Step] = ()
    queue: Sequence[Step] = ()
    pressure: Sequence[Step] = ()
    disk_queue: Sequence[Step] = ()
    iops: Sequence[Step] = ()
    network: Sequence[Step] = ()
    consumers: Sequence[Step] = ()
    delay: Sequence[Step] = ()
    disk_users: Sequence[Step] = ()


def read_timelines(directory: Path | None, origin_ns: int) -> Timelines:
    """Timelines of a run's series directory; empty ones where it holds none."""
    if directory is None or not directory.is_dir():
        return Timelines()
    with opened(directory, POINTS, origin_ns) as reader:
        if reader is None:
            return Timelines()
        programs = reader.programs()
        return Timelines(
            cpu=reader.rates("cpu", "cpu", CPU_STATES, 1 / NS_PER_S, "sum"),
            queue=reader.queue(),
            pressure=reader.rates("host", "", PRESSURES, 100 / NS_PER_S, ""),
            disk_queue=reader.rates("disk", "device", {"queue_ns": ""}, 1 / NS_PER_S, "key"),
            iops=reader.rates("disk", "device", {"reads": "reads", "writes": "writes"}, 1, "sum"),
            network=reader.rates(
                "net", "interface", {"rx_bytes": "received", "tx_bytes": "sent"}, 1e-6, "sum"
            ),
            consumers=programs["consumers"],
            delay=programs["delay"],
            disk_users=programs["disk-users"],
        )
