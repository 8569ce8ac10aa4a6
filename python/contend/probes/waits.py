"""Waits of a victim that is off the CPU, by kind: by looks at the system calls of its tasks, which are a sample, corrected
by what the kernel counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from contend.probes.observed import Evidence, Observed, put

WAITS: Mapping[str, Observed] = {
    "file_lock": Observed.WAITED_FILE_LOCK,
    "sync": Observed.WAITED_SYNC,
    "read": Observed.WAITED_READ,
    "write": Observed.WAITED_WRITE,
    "completion": Observed.WAITED_COMPLETION,
    "peer": Observed.WAITED_PEER,
    "send": Observed.WAITED_SEND,
    "page": Observed.WAITED_PAGE,
}
"""By the name that `TaskWatch` has for a kind of wait."""

LEAST_LOOKS = 10
"""Fewer say little of what a trial waited for: of ten, one is a tenth of its time."""


def add_waits(result: Evidence, taskwatch: Mapping[str, int]) -> None:
    """Add waits by the share of looks that saw them; none where nobody could look, or too seldom."""
    if taskwatch.get("looks", 0) < LEAST_LOOKS or not taskwatch["looked_ns"]:
        return
    put(result, Observed.LOOKS, taskwatch["looks"])
    # The time before the first look and after the last one passed like the rest.
    for name, observed in WAITS.items():
        put(
            result,
            observed,
            result[Observed.WALL][0] * taskwatch[f"waited_{name}_ns"] / taskwatch["looked_ns"],
        )


_SERIAL = 0.02
"""Part of the looks, up to which several tasks of a party may do something at once: a shell and what it starts."""
_UNSEEN = 0.2
"""Part of the time, up to which tasks may have computed that nobody looked at, since they were new."""
_MOST_MISSED = 2.0
"""Times that the waits are as long as the looks have it, at most: what is longer is of a kind that looks do not know."""


def correct_by_time_off(result: Evidence, taskwatch: Mapping[str, int], interrupts_s: float) -> None:
    """Correct waits by what the kernel counts. Looks are a sample, and miss short waits; of a party of which one task at a
    time has something to do, the rest of the time in which that ran or could have is what it waited.

    Of the rest, what the hypervisor took and what interrupts took of the victim's CPUs (`interrupts_s`: of whoever was on
    them) is known within bounds only, and so is the time in which there was nobody to look at, as while a container starts:
    within these bounds the looks are believed.
    """
    known = (Observed.LOOKS, Observed.CPU, Observed.RUN_DELAY)
    if any(name not in result for name in known) or "ran_ns" not in taskwatch:
        return
    wall, cpu, delay = (result[name][0] for name in (Observed.WALL, Observed.CPU, Observed.RUN_DELAY))
    watched, looked_ns = taskwatch["cpu_ns"] / 1e9, taskwatch["looked_ns"]
    unseen = max(0.0, cpu - watched)
    if taskwatch["at_once_ns"] > _SERIAL * looked_ns or unseen > _UNSEEN * wall or not watched:
        return
    # While a task computed that nobody looked at, the others were seen to do nothing.
    waits = sum(result[name][0] for name in WAITS.values())
    seen = max(waits, wall * (1 - taskwatch["ran_ns"] / looked_ns) - unseen)
    if waits <= 0:
        return
    stolen = [result.get(name, (0.0, "s"))[0] for name in (Observed.STOLEN_LEAST, Observed.STOLEN_MOST)]
    most = wall - cpu - delay - stolen[0]
    nobody = max(0.0, wall - looked_ns / 1e9 - unseen)
    least = most - (stolen[1] - stolen[0]) - interrupts_s - delay * unseen / watched - nobody
    off = max(0.0, min(max(seen, least), most))
    for name in WAITS.values():
        put(result, name, result[name][0] * min(off / seen, _MOST_MISSED))


_ON_DISK = (Observed.WAITED_READ, Observed.WAITED_PAGE, Observed.WAITED_WRITE, Observed.WAITED_SYNC)
"""Waits that the kernel counts as I/O, wholly or in part."""


def correct_by_pressure(result: Evidence) -> None:
    """Correct waits for a device, which are over before a look can tell them where it is fast. The kernel counts the time in
    which some task of the group waited for I/O: kinds that were seen share what looks have missed of it, up to as much as
    was seen. More is a wait of a kind that looks do not know.
    """
    seen = [(name, result[name][0]) for name in _ON_DISK if name in result]
    total, pressure = sum(value for _, value in seen), result.get(Observed.OWN_PSI_IO, (0.0, "s"))[0]
    if 0 < total < pressure:
        for name, value in seen:
            put(result, name, value * min(2.0, pressure / total))
