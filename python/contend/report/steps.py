"""Steps: what the lines of timelines are made of, and what they are called."""

from __future__ import annotations

from typing import NamedTuple

CPU_STATES = {
    "user_ns": "user", "nice_ns": "nice", "system_ns": "system", "irq_ns": "interrupts",
    "softirq_ns": "soft interrupts", "iowait_ns": "waiting for disk", "steal_ns": "stolen",
}  # fmt: skip
PRESSURES = {"psi_cpu_some_ns": "CPU", "psi_io_some_ns": "disk", "psi_memory_some_ns": "memory"}

OTHERS = "all others"


class Step(NamedTuple):
    """One step of one line: its middle (s), its mean, and the most in one interval of it."""

    t: float
    mean: float
    most: float
    line: str
