"""Times that a unit of work took, beside the neighbour and alone: what every share of a slowdown is a part of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contend.document import CellResult, Work, Worked
from contend.probes.observed import Observations, Observed
from contend.studies.causes.cause import observed

_MEAN_GREW = 1.1
"""A mean latency that grew by less tells nothing of a percentile: trials differ by that, and any wait would explain it."""


def is_percentile(result: CellResult) -> bool:
    """The figure is a latency under a stated rate, of which no time of the victim's is a part; who asks waits by design."""
    return result.metric.loop == "open"


@dataclass(frozen=True, slots=True)
class Lost:
    """Times that a unit of work took, beside the neighbour and alone."""

    beside: Work
    alone: Work

    @classmethod
    def of(cls, result: CellResult) -> Lost | None:
        """Means over trials; of a run whose trials are not at hand medians have to do. None where no time was lost."""
        worked = result.worked
        if is_percentile(result) and (worked is None or Observed.REQUESTS not in result.evidence):
            return None
        if worked is None:
            beside = _per_unit(result.estimate.value, result.evidence)
            worked = Worked(beside, _per_unit(1.0, result.baseline_evidence))
        least = _MEAN_GREW if is_percentile(result) else 1.0
        return cls(worked.beside, worked.alone) if worked.beside.time > least * worked.alone.time else None

    @property
    def what(self) -> str:
        """The time of which causes have shares, in words."""
        return (
            "the slowdown" if Observed.REQUESTS not in self.beside.seen else "what its mean latency grew by"
        )

    @property
    def time(self) -> float:
        return self.beside.time - self.alone.time

    def share(self, of: Callable[[Observations], float]) -> float:
        """Part of the time lost that the growth of this time explains."""
        return (of(self.beside.seen) - of(self.alone.seen)) / self.time

    def share_of(self, name: Observed) -> float:
        return self.share(lambda seen: observed(seen, name))

    def grows(self, name: Observed, least: float) -> bool:
        """There is more of it, by a fifth and by so much a second."""
        here, alone = observed(self.beside.seen, name), observed(self.alone.seen, name)
        return here >= MORE * alone and here - alone >= least * self.beside.time

    @property
    def is_kernel_s(self) -> bool:
        """At least half of the CPU time that the work took more is the kernel's."""
        return 2 * self.share_of(Observed.SYSTEM_CPU) >= self.share_of(Observed.CPU) > 0

    @property
    def reading(self) -> float:
        """Part of the time lost in which it computed to read what memory had alone: the growth of its CPU time, but no more
        than reading takes, once for each time that it gave its CPU up.
        """
        if not self.reads_again:
            return 0.0
        waits, cpu = (self.share_of(name) for name in (Observed.VOLUNTARY_SWITCHES, Observed.CPU))
        return max(0.0, min(cpu, waits * _READ_CPU_S))

    def waking(self, waited: float) -> float:
        """Part of the time lost in which it waited for a CPU only because it woke from waits that it did not have alone.

        waited: the part in which it waited for a CPU. Who takes those waits away takes this away, whoever has the CPUs. Of
        several tasks that wake at once, each holds it up for its part.
        """
        cpu, wall = (observed(self.beside.seen, name) for name in (Observed.CPU, Observed.WALL))
        at_once = max(1.0, cpu / wall) if wall else 1.0
        return max(0.0, min(waited, self.share_of(Observed.VOLUNTARY_SWITCHES) * _WAKE_S / at_once))

    @property
    def reads_again(self) -> bool:
        """It reads from devices what memory had alone."""
        return self.grows(Observed.READ_BYTES, _READ_BYTES_PER_S) or self.faults_again

    @property
    def faults_again(self) -> bool:
        return self.grows(Observed.MAJOR_FAULTS, _FAULTS_PER_S)


def _per_unit(time: float, seen: Observations) -> Work:
    """A unit of work by medians."""
    counted = observed(seen, Observed.MEASURED) or observed(seen, Observed.WALL)
    return Work(
        time, Observations({name: (value * time / counted, unit) for name, (value, unit) in seen.items()})
    )


_READ_CPU_S = 40e-6
"""Most that a request of a device costs its caller: system call, request, two switches, and caches that are cold then."""


_WAKE_S = 20e-6
"""Most that a task waits for a CPU that is free when it wakes: 10 µs were seen in virtual machines, less outside of them."""


MORE = 1.2


_READ_BYTES_PER_S = 1e6


_FAULTS_PER_S = 100.0
"""Least that is read again a second, and faults for it: below that it takes no time to speak of."""
