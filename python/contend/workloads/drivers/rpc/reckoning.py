"""Effect of a fault on calls: how many were answered, lost, failed and done twice, and when answers flowed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from contend.stats.quantiles import clopper_pearson

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Call:
    """One call, by its number. Times are nanoseconds after the load began. done_ns: when it ended; of one that had not,
    when the load was over. outcome: ok, refused, broken, timed_out, unfinished."""

    number: int
    due_ns: int
    done_ns: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Fault:
    """When a fault began and when it was undone; each lies between two times, ns after the load began."""

    began_ns: tuple[int, int]
    undone_ns: tuple[int, int]


def reckon(calls: Sequence[Call], handled: Iterable[int], fault: Fault, in_time_ns: int) -> dict[str, Any]:
    """Reckon up one trial as a document. handled: the number of each call that the service took, as often as it did.

    lost: nobody ever told the caller anything; failed: it was told of an error. Shares have Clopper–Pearson bounds: of a
    count of 0 too there is more to say than 0.

    >>> S = 10**9
    >>> calls = [Call(k, k * S, k * S + (9 * S if k == 2 else 1), "timed_out" if k == 2 else "ok") for k in range(6)]
    >>> told = reckon(calls, [0, 1, 3, 3, 4, 5], Fault((S, S), (2 * S, 2 * S)), S // 10)
    >>> told["lost"]["count"], told["duplicated"]["count"], told["backlog"], told["recovery_s"]
    (1, 1, 2, {'recovered': True, 'low': 1.0, 'high': 2.0})
    """
    ordered = sorted(calls, key=lambda call: call.due_ns)
    outcomes = Counter(call.outcome for call in ordered)
    times, again = Counter(handled), recovery(ordered, fault, in_time_ns)
    over_s = max((call.due_ns for call in ordered), default=0) / 1e9 - fault.began_ns[0] / 1e9
    own = {call.number for call in ordered}
    answered = {call.number for call in ordered if call.outcome == "ok"}
    counts = {
        "answered": outcomes["ok"],
        "late": sum(call.outcome == "ok" and not _good(call, in_time_ns) for call in ordered),
        "lost": outcomes["timed_out"] + outcomes["unfinished"],
        "failed": outcomes["refused"] + outcomes["broken"],
        "duplicated": sum(times[number] > 1 for number in own),
        "done_unheard": sum(1 for number in own - answered if times[number]),
    }
    return {
        "sent": len(ordered),
        **{name: _share(count, len(ordered)) for name, count in counts.items()},
        "handled": sum(times[number] for number in own),
        "backlog": backlog(ordered),
        "recovery_s": again,
        "recovered": int(again["recovered"]),
        "outage_s": max(0.0, over_s) if again["high"] is None else again["high"],
        "fault_s": {"began": _seconds(fault.began_ns), "undone": _seconds(fault.undone_ns)},
    }


def recovery(ordered: Sequence[Call], fault: Fault, in_time_ns: int) -> dict[str, Any]:
    """Time from the fault until answers keep up with requests, seconds: between the last call that was not answered
    in time, and the next one, after which all were; by when they were due, so that a backlog counts too.

    The pace is what tells these two apart: at 20 calls a second the interval is 0.05 s wide, and what it took to bring the
    fault about. high is None where it never did.
    """
    low_ns, high_ns = fault.began_ns
    after = [call for call in ordered if call.due_ns >= low_ns]
    bad = [at for at, call in enumerate(after) if not _good(call, in_time_ns)]
    if not bad:
        # As long as from one call to the next it may have lasted, and nobody would know.
        before = max((call.due_ns for call in ordered if call.due_ns < low_ns), default=low_ns)
        return {
            "recovered": bool(after),
            "low": 0.0,
            "high": (after[0].due_ns - before) / 1e9 if after else None,
        }
    low = max(0, after[bad[-1]].due_ns - high_ns) / 1e9
    if bad[-1] + 1 == len(after):
        return {"recovered": False, "low": low, "high": None}
    return {"recovered": True, "low": low, "high": (after[bad[-1] + 1].due_ns - low_ns) / 1e9}


def backlog(calls: Iterable[Call]) -> int:
    """Largest number of calls that were due and had not ended at one time."""
    changes = sorted(change for call in calls for change in ((call.due_ns, 1), (call.done_ns, -1)))
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _good(call: Call, in_time_ns: int) -> bool:
    return call.outcome == "ok" and call.done_ns - call.due_ns <= in_time_ns


def _share(count: int, of: int) -> dict[str, Any]:
    low, high = clopper_pearson(count, of, LEVEL) if of else (0.0, 1.0)
    return {"count": count, "of": of, "share": count / of if of else 0.0, "low": low, "high": high}


def _seconds(times_ns: tuple[int, int]) -> list[float]:
    return [ns / 1e9 for ns in times_ns]
