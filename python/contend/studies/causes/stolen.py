"""Time that the hypervisor took: as much of it as is known to have been the victim's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contend.document import CellResult
from contend.probes.observed import Observations, Observed
from contend.studies.causes.cause import LEAST_SHARE, Cause, observed, pair, percent
from contend.studies.causes.lost import Lost
from contend.units import format_value


@dataclass(frozen=True, slots=True)
class Stolen:
    """Bounds of the share of a slowdown that is time which the hypervisor took from the victim."""

    least: float
    most: float

    @classmethod
    def of(cls, lost: Lost) -> Stolen:
        """The growth of that time. Beside it may be the most of it and alone the least, or the other way round."""
        (least, most), (least_alone, most_alone) = (_bounds(side.seen) for side in (lost.beside, lost.alone))
        return cls((least - most_alone) / lost.time, (most - least_alone) / lost.time)

    @property
    def known(self) -> bool:
        """True if the bounds are as near to each other as a share has to be large to be worth a sentence."""
        return self.most - self.least <= LEAST_SHARE

    def cause(self, result: CellResult) -> Cause | None:
        """The cause with a share that is known, or with the least that it is; None where even that is none."""
        share = (self.least + self.most) / 2 if self.known else self.least
        if share <= 0:
            return None
        now, before = result.evidence, result.baseline_evidence
        least, most = _bounds(now)
        taken = format_value((least + most) / 2, "s")
        if not self.known:
            taken = f"{format_value(least, 's')} to {format_value(most, 's')}"
        words = f"its CPU was taken by the hypervisor {taken} of {format_value(observed(now, Observed.WALL), 's')}"
        evidence = (
            *pair(Observed.STOLEN_LEAST, now, before, "its CPU was taken by the hypervisor, at least"),
            *pair(Observed.STOLEN_MOST, now, before, "the same, at most"),
            *pair(Observed.STEAL, now, before, "its CPUs were taken, whoever was on them, summed over them"),
        )
        return Cause("hypervisor", share, words, evidence, clause=True, at_least=not self.known)


def doubt(result: CellResult, causes: Sequence[Cause]) -> str:
    """Say that the hypervisor may be a cause, and why that is not known; "" where it is known, or is too little to matter.

    causes: those of the result that are known.
    """
    lost = Lost.of(result)
    if lost is None or any(cause.resource == "hypervisor" for cause in causes):
        return ""
    stolen = Stolen.of(lost)
    most = min(stolen.most, 1 - sum(cause.share for cause in causes))
    if stolen.known or most < LEAST_SHARE:
        return ""
    now = result.evidence
    taken, wall = (format_value(observed(now, name), "s") for name in (Observed.STEAL, Observed.WALL))
    return (
        f"the hypervisor may have taken up to {percent(most)} of {lost.what}: it kept these CPUs for {taken} in {wall},"
        " summed over them, and who was on them then is not known"
    )


def _bounds(seen: Observations) -> tuple[float, float]:
    """Seconds of the victim's, least and most. A run of an earlier version has what was stolen from whoever was there."""
    if Observed.STOLEN_MOST in seen:
        return observed(seen, Observed.STOLEN_LEAST), observed(seen, Observed.STOLEN_MOST)
    return 0.0, observed(seen, Observed.STEAL)
