"""The verdict as a paragraph for people: what was at its limit, with figures, or what was idle; what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contend.advice.finding import Evidence
from contend.contention.alibi import limits
from contend.units import format_value

if TYPE_CHECKING:
    from contend.contention.alibi.verdict import Alibi, CellAlibi, PhaseAlibi, Saturation

_LIMIT = {
    "cpu": "the CPU is the limit: {subject} without time left, and tasks wait",
    "memory": "memory is the limit: {subject}",
    "disk": "the disk {subject} is the limit: requests queue",
    "network": "the network is the limit: {subject}",
    "steal": "the hypervisor is the limit: it keeps {subject} for others",
    "throttling": "a CPU quota is the limit: {subject} is throttled",
    "thread": "one thread is the limit: {subject}",
}
_CALM = {
    "cpu": "no core saturated",
    "thread": "no thread saturated",
    "disk": "no disk queue",
    "memory": "no stall for memory",
    "network": "no network queue",
    "steal": "nothing stolen",
    "throttling": "nothing throttled",
}
_GROUP_LIMIT = {
    "cpu": "it waited for a CPU",
    "memory": "it stood still for memory: {subject}",
    "disk": "it waited for disk requests: {subject}",
    "throttling": "a CPU quota is its limit: {subject} is throttled",
    "thread": "one thread is its limit: {subject}",
}
_GROUP_CALM = (
    "no thread of it full",
    "no wait for a CPU that matters",
    "not throttled",
    "no stall for memory",
    "no wait for a disk that matters",
)

_SHORT = {
    "cpu": "the CPU was the limit",
    "memory": "memory was the limit",
    "disk": "the disk was the limit",
    "network": "the network was the limit",
    "steal": "the hypervisor took CPU time",
    "throttling": "a CPU quota was the limit",
    "thread": "one thread was the limit",
    "idle": "nothing at its limit",
    "unknown": "not known",
}


def short(alibi: Alibi | CellAlibi | PhaseAlibi) -> str:
    """Describe a verdict in a few words.

    >>> from contend.contention.alibi.verdict import CellAlibi
    >>> short(CellAlibi("a", {}, "disk", "vda", 10, 9, ""))
    'the disk was the limit (vda)'
    """
    return _SHORT[alibi.verdict] + (f" ({alibi.subject})" if alibi.subject else "")


def phase_name(alibi: PhaseAlibi) -> str:
    """
    >>> from contend.contention.alibi.verdict import PhaseAlibi
    >>> phase_name(PhaseAlibi("counted", "idle", "", "", 0, 1)), phase_name(PhaseAlibi("run", "idle", "", "", 0, 1))
    ('the counted trials', 'the whole run')
    """
    names = {"run": "the whole run", "counted": "the counted trials", "pilot": "the pilot"}
    return names.get(alibi.phase, alibi.phase)


def cell_line(alibi: CellAlibi) -> str:
    """Describe the verdict on a cell, and how many of its trials agree.

    >>> from contend.contention.alibi.verdict import CellAlibi
    >>> cell_line(CellAlibi("a", {}, "idle", "", 10, 9, ""))
    'nothing at its limit, in 9 of 10 trials'
    """
    return f"{short(alibi)}, in {alibi.agreeing} of {alibi.trials} trials"


def workload_line(alibi: CellAlibi) -> str:
    """Say what held the measured workload up in a cell, and in how many of its trials; "" where that is not known.

    >>> from contend.contention.alibi.verdict import CellAlibi
    >>> workload_line(CellAlibi("a", {}, "cpu", "", 10, 9, "", "throttling", 8, ""))
    'a CPU quota was the limit, in 8 of 10 trials'
    """
    if not alibi.workload_verdict:
        return ""
    wordings = {
        "cpu": "it waited for a CPU",
        "disk": "it waited for a disk",
        "idle": "it hardly waited for the hardware",
    }
    words = wordings.get(alibi.workload_verdict) or _SHORT[alibi.workload_verdict]
    return f"{words}, in {alibi.workload_agreeing} of {alibi.trials} trials"


def paragraph(alibi: Alibi) -> str:
    """Explain an alibi in one paragraph, most important first."""
    if alibi.scope:
        return _group_words(alibi)
    parts = []
    if alibi.verdict == "idle":
        parts.append(f"No hardware was at its limit, look at the software: {_calm(alibi)}.")
    elif alibi.verdict == "unknown":
        parts.append(f"Not known: {_joined(alibi.unknown)}.")
    else:
        main = next(s for s in alibi.saturated if (s.resource, s.subject) == (alibi.verdict, alibi.subject))
        sentence = _LIMIT[main.resource].format(subject=main.subject)
        parts.append(f"{sentence[0].upper()}{sentence[1:]}, {_share(main)} of the phase{_figures(main)}.")
    others = [s for s in alibi.saturated if (s.resource, s.subject) != (alibi.verdict, alibi.subject)]
    parts += [_other(s) for s in others[:3]]
    if len(others) > 3:
        parts.append(f"And {len(others) - 3} more.")
    if alibi.verdict not in ("idle",) and alibi.idle:
        parts.append(f"Unused: {_idle(alibi)}.")
    parts += [f"{note[0].upper()}{note[1:]}." for note in alibi.notes]
    if alibi.unknown and alibi.verdict != "unknown":
        parts.append(f"Not judged: {_joined(alibi.unknown)}.")
    return " ".join(parts)


def _group_words(alibi: Alibi) -> str:
    """Words for what held a workload up, or that the hardware did not."""
    name = f"{alibi.scope[0].upper()}{alibi.scope[1:]}"
    main_limits = [s for s in alibi.saturated if s.share >= limits.MAIN_SHARE]
    if alibi.verdict == "idle":
        parts = [f"{name} hardly waited for the hardware, look at the software: {', '.join(_GROUP_CALM)}."]
    elif alibi.verdict == "unknown":
        parts = [f"{name}: not known: {_joined(alibi.unknown)}."]
    else:
        main = next(s for s in alibi.saturated if (s.resource, s.subject) == (alibi.verdict, alibi.subject))
        sentence = _GROUP_LIMIT[main.resource].format(subject=main.subject)
        parts = [f"{name}: {sentence}, {_share(main)} of the phase{_figures(main)}."]
    others = [s for s in main_limits if (s.resource, s.subject) != (alibi.verdict, alibi.subject)]
    parts += [_other(s) for s in others[:3]]
    parts += [f"{note[0].upper()}{note[1:]}." for note in alibi.notes]
    if alibi.unknown and alibi.verdict != "unknown":
        parts.append(f"Not judged: {_joined(alibi.unknown)}.")
    return " ".join(parts)


def _calm(alibi: Alibi) -> str:
    """The CPU's use and the resources that were judged and met no limit that matters."""
    met = {s.resource for s in alibi.saturated if s.share >= limits.MAIN_SHARE}
    used = f"CPU {_percent(1 - alibi.idle['cpu'])} busy, " if "cpu" in alibi.idle else ""
    missing = " ".join(alibi.unknown)
    doubt = {"network": "network", "throttling": "throttling", "thread": "one thread", "memory": "memory:"}
    calm = [
        words
        for resource, words in _CALM.items()
        if resource not in met and not (resource in doubt and doubt[resource] in missing)
    ]
    return used + ", ".join(calm)


def _other(s: Saturation) -> str:
    because = f" because of {s.cause}" if s.cause else ""
    return f"Also {s.resource} ({s.subject}), {_share(s)} of the phase{because}."


def _figures(s: Saturation) -> str:
    return "".join(f"; {_shown(e)}" for e in s.evidence[:3])


def _shown(e: Evidence) -> str:
    if e.unit == "fraction":
        return f"{e.what} {_percent(e.value)}"
    if e.unit == "1/s":
        return f"{e.what} {format_value(e.value, 'count')} a second"
    return f"{e.what} {format_value(e.value, e.unit)}"


def _share(s: Saturation) -> str:
    return _percent(s.share)


def _idle(alibi: Alibi) -> str:
    return ", ".join(f"{resource} {_percent(share)}" for resource, share in alibi.idle.items())


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _joined(items: Sequence[str]) -> str:
    return "; ".join(items)
