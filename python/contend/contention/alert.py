"""Alerts: did somebody in scope lose more to neighbours than a threshold allows?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from contend.contention.blame import FEWEST, LEVEL, RESOURCES
from contend.contention.watch import Watched
from contend.text.shape import Limits, Shape, Through

Verdict = Literal["crossed", "not crossed", "cannot tell"]


@dataclass(frozen=True, slots=True)
class BecauseDocument(Shape):
    """A victim."""

    resource: Annotated[str, Limits(enum=list(RESOURCES))]
    victim: str


def _victims(because: Iterable[tuple[str, str]]) -> list[BecauseDocument]:
    return [BecauseDocument(*one) for one in because]


@dataclass(frozen=True, slots=True)
class Alert(Shape):
    """The answer to --alert."""

    threshold: float
    verdict: Verdict
    because: Annotated[tuple[tuple[str, str], ...], Through(_victims)]
    reason: str
    level: float = field(default=LEVEL, init=False)

    @property
    def exit_code(self) -> int:
        return {"crossed": 4, "not crossed": 0, "cannot tell": 5}[self.verdict]


_NOBODY = "nobody in the scope ran or waited meanwhile: contend watch without SCOPE shows the names"


def judge(watched: Watched, threshold: float, keep: Callable[[str], bool] = lambda _: True) -> Alert:
    """Compare a watch with a threshold. The alert is raised where a victim's whole interval lies above it; CPU and
    disk, and each victim, are judged separately.

    It cannot be told where an interval holds the threshold, where there are too few periods for one, where none of the
    victims ran or waited (a scope that names nobody), and without BPF: a correlation accuses nobody.
    """
    blame = watched.blame
    above: list[tuple[str, str]] = []
    unsure: list[tuple[str, str]] = []
    few = 0
    for resource in RESOURCES:
        for victim, estimate in blame.ranked(resource, keep, threshold):
            if estimate.verdict == "higher":
                above.append((resource, victim))
            elif estimate.verdict == "too few":
                few += 1
            elif estimate.verdict != "lower":
                unsure.append((resource, victim))
    if watched.kind != "blame":
        return Alert(threshold, "cannot tell", (), "without BPF nobody can be blamed: run it as root")
    if above:
        return Alert(threshold, "crossed", tuple(above), "the whole interval lies above it")
    if unsure:
        return Alert(threshold, "cannot tell", tuple(unsure), "the interval holds it: watch longer (--for)")
    if not blame.seen(keep):
        return Alert(threshold, "cannot tell", (), _NOBODY)
    if few or len(blame.counted()) < FEWEST:
        return Alert(threshold, "cannot tell", (), "too few intervals: watch longer (--for), or a shorter -i")
    return Alert(threshold, "not crossed", (), "every interval lies below it")
