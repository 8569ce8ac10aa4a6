"""Was something around a trial that the plan did not put there, or was the victim elsewhere than the plan put it?

A flagged trial is shown as such, never dropped: a rule that drops trials chooses the result.
"""

from __future__ import annotations

from collections.abc import Mapping

from contend.probes.observed import Observed

# Names as they stand in a trial's row, and what each means to a person.
FLAGS: Mapping[str, str] = {
    "steal": "the hypervisor kept more than 1 % of the victim's CPU time for others",
    "foreign-cpu": "processes that contend did not start used more than 5 % of the victim's CPUs",
    "limit-changed": "somebody else changed a limit (quota, CPU set, weight, memory, I/O) of a measured control group",
    "left-its-cpus": "the victim used more CPU time than its CPUs have: it has changed its affinity",
}

# 1 %: half of the default target of ±2 %: what stays unflagged cannot make up a difference worth reporting.
STEAL = 0.01
# 5 %: a trial of 1 s counts sampled ticks of 10 ms, so 1–2 % are its own error; ordinary daemons stay below.
FOREIGN_CPU = 0.05
# A tenth more than there is of it, and two ticks: x265 with libnuma, for one, sets its threads free on all CPUs of a node.
MORE_THAN_ALL, TICKS_S = 1.1, 0.02


def flags(
    evidence: Mapping[Observed, tuple[float, str]],
    cpus: int,
    *,
    by_affinity: bool = False,
    changed: bool = False,
) -> tuple[str, ...]:
    """Choose the names in FLAGS that hold for a trial's evidence; `cpus` is the number of CPUs the victim may use,
    by_affinity: whether nothing but an affinity keeps it there; changed: whether a limit of its group was changed from
    outside.

    Where a figure is absent its flag cannot be raised.

    >>> flags({Observed.WALL: (2.0, "s"), Observed.STEAL: (0.05, "s"), Observed.FOREIGN_CPU: (0.05, "s")}, cpus=1)
    ('steal',)
    >>> used = {Observed.WALL: (2.0, "s"), Observed.CPU: (3.1, "s")}
    >>> [flags(used, cpus, by_affinity=True) for cpus in (1, 2)], flags(used, cpus=1)
    ([('left-its-cpus',), ()], ())
    """
    available = evidence[Observed.WALL][0] * cpus if Observed.WALL in evidence else 0.0
    others = ("limit-changed",) if changed else ()
    if available <= 0:
        return others
    left = by_affinity and evidence.get(Observed.CPU, (0.0, "s"))[0] > MORE_THAN_ALL * available + TICKS_S
    limits = {"steal": (Observed.STEAL, STEAL), "foreign-cpu": (Observed.FOREIGN_CPU, FOREIGN_CPU)}
    return (
        tuple(
            flag
            for flag, (name, limit) in limits.items()
            if evidence.get(name, (0.0, "s"))[0] > limit * available
        )
        + (("left-its-cpus",) if left else ())
        + others
    )
