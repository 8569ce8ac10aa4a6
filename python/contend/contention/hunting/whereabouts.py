"""Where the jobs' time is, in plain words: what there is to say where nobody holds them up."""

from __future__ import annotations

from contend.contention.hunting.charges import RUNS, Charges
from contend.units import of_time

_MOST, _LEAST = 3, 0.05  # parts in the sentence; smaller ones only where they come first

_WORDS = {
    "running": "running",
    "suspended": "awaiting timers, answers or their turn",
    "cpu": "ready without a CPU",
    "blocked": "off the CPU for what is not on record",
    "sleep": "sleeping",
    "io": "in the system call",
    "lock": "waiting for lock",
    "condition": "waiting for",
    "queue": "waiting at queue",
    "reply": "waiting for the answer to",
    "pool": "waiting for a worker of",
    "gil": "waiting for the interpreter's lock",
}


def whereabouts(charges: Charges) -> str:
    """A sentence on the largest parts of the jobs' time; empty where no jobs are on record."""
    total = charges.tables.total_ns
    if not charges.tables.jobs or not total:
        return ""
    ranked = sorted(charges.waited.items(), key=lambda item: (-item[1], item[0]))
    parts = [
        f"{_words(kind, name)} {of_time(ns / total)}"
        for at, ((kind, name), ns) in enumerate(ranked[:_MOST])
        if at == 0 or ns >= _LEAST * total
    ]
    return f"Where {charges.tables.whole} is: {'; '.join(parts)}." if parts else ""


def _words(kind: str, name: str) -> str:
    """
    >>> _words("sleep", "fetch"), _words("io", "read"), _words("sleep", "sleep")
    ('sleeping, in fetch,', 'in the system call read', 'sleeping')
    """
    words = _WORDS.get(kind, kind)
    if kind in RUNS:
        return words if name in ("", kind) else f"{words}, in {name},"
    return words if kind == "gil" else f"{words} {name}"
