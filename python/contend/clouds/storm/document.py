"""A storm as a document: its figures, every server's times, what went wrong, what the client and the services used."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.clouds.storm.stamps import NS, Interval, Track, phases
from contend.clouds.storm.storm import Happened
from contend.errors import TrialFailed
from contend.ranks import interpolated

SCHEMA_VERSION = 1


def write(happened: Happened, out: Path, tolerate: float) -> None:
    """Write a storm's document. Raises TrialFailed where more than `tolerate` (0–1) failed, or where one cannot be
    deleted."""
    n = happened.options.n
    problems = {t.problem for t in happened.tracks if t.problem}
    failed = sum(bool(t.problem) for t in happened.tracks)
    if failed > tolerate * n or failed == n:
        raise TrialFailed(
            f"{failed} of {n} machines did not become {happened.awaited}: {'; '.join(sorted(problems))[:300]}"
        )
    if happened.left:
        name, why = next(iter(happened.left.items()))
        raise TrialFailed(f"{len(happened.left)} machines cannot be deleted: {name}: {why}")
    content = document(happened)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def document(happened: Happened) -> dict[str, Any]:
    """Make a storm's document. Times in seconds, moments since the storm's begin. Raises ValueError where no machine
    succeeded."""
    served = [t for t in happened.tracks if t.name in happened.active]
    if not served:
        raise ValueError(f"no machine became {happened.awaited}")
    times = sorted(_since(t.due_ns, happened.active[t.name]) for t in served)
    widths = sorted(happened.active[t.name].width / NS for t in served)
    parts = {t.name: phases(t, happened.active[t.name], happened.order) for t in served}
    first = min(t.due_ns for t in served)
    makespan = max(happened.active[t.name].estimate for t in served) - first
    running = sorted((t.running_ns - t.due_ns) / NS for t in served if t.running_ns)
    gone = [(t.delete_ns, t.gone) for t in happened.tracks if t.gone is not None]
    client_s = happened.client_cpu_ns / NS
    return {
        "schema_version": SCHEMA_VERSION,
        "n": happened.options.n,
        "rate": happened.options.rate,
        "awaited": happened.awaited,
        "served": len(served),
        "failed": happened.options.n - len(served),
        "problems": dict(Counter(t.problem for t in happened.tracks if t.problem)),
        "min_s": times[0],
        "median_s": interpolated(times, 0.5),
        "p90_s": interpolated(times, 0.9),
        "max_s": times[-1],
        "makespan_s": makespan / NS,
        "accepted_s": interpolated(sorted((t.accepted_ns - t.due_ns) / NS for t in served), 0.5),
        "running_s": interpolated(running, 0.5) if running else None,
        "width_s": interpolated(widths, 0.5),
        "late_s": max((t.sent_ns - t.due_ns) / NS for t in served),
        "delete_median_s": interpolated(sorted(_since(at, seen) for at, seen in gone), 0.5) if gone else 0.0,
        "delete_makespan_s": _makespan(gone),
        "phases_s": _mean(list(parts.values()), happened.order),
        "began_unix_s": (happened.begin_ns + happened.wall_minus_monotonic_ns) / NS,
        "client_cpu_s": client_s,
        "process_cpu_s": time.process_time(),  # the whole of it: start, storm, deletion, questions to the server
        "polls": happened.polls,
        "widest_poll_s": happened.widest_ns / NS,
        "asking_share": happened.asking_ns / max(1, happened.watched_ns),
        "cpu_s": happened.roles,
        "counts": happened.counts,
        "counted": happened.counted,
        "stamps": _stamps(happened),
        "serving": _serving(happened),
        "begin_ns": happened.begin_ns,
        "disagree": happened.disagree,
        "clock_s": None if happened.clock is None else [bound / NS for bound in happened.clock],
        "left": happened.left,
        "servers": [_server(happened, t, parts.get(t.name, {})) for t in happened.tracks],
    }


def _stamps(happened: Happened) -> dict[str, Any] | None:
    """How far the middles of what was seen without notifications lie from these; None where none was heard."""
    heard = {name: seen for name, seen in happened.unheard.items() if name in happened.active}
    if not heard:
        return None
    ends = {name: min(v for k, v in happened.stamps[name].items() if k != "start") for name in heard}
    errors = sorted(abs(seen.estimate - ends[name]) / NS for name, seen in heard.items())
    return {
        "heard": len(heard),
        "inside": sum(seen.low <= ends[name] <= seen.high for name, seen in heard.items()),
        "error_s": interpolated(errors, 0.5),
        "largest_error_s": errors[-1],
        "unheard_width_s": interpolated(sorted(seen.width / NS for seen in heard.values()), 0.5),
    }


def _serving(happened: Happened) -> dict[str, Any] | None:
    """From due to the guest's first answer, of those that answered; None where nobody was asked.

    guest_s: from ACTIVE to there, of a mean one, as the phases are.
    """
    if not happened.probes and not happened.served:
        return None
    tracks = [t for t in happened.tracks if t.name in happened.served]
    times = sorted(_since(t.due_ns, happened.served[t.name]) for t in tracks)
    after = sorted((happened.served[t.name].estimate - happened.active[t.name].estimate) / NS for t in tracks)
    widths = sorted(happened.served[t.name].width / NS for t in tracks)
    figures = {"median_s": 0.5, "p90_s": 0.9, "max_s": 1.0}
    return {
        "answered": len(tracks),
        "at_once": happened.served_at_once,
        "timed_out": max(0, len(happened.active) - len(tracks) - happened.served_at_once),
        "probes": happened.probes,
        **{name: interpolated(times, share) if times else None for name, share in figures.items()},
        "after_active_s": interpolated(after, 0.5) if after else None,
        "guest_s": sum(after) / len(after) if after else None,
        "width_s": interpolated(widths, 0.5) if widths else None,
    }


def _since(start_ns: int, moment: Interval) -> float:
    return (moment.estimate - start_ns) / NS


def _makespan(gone: Sequence[tuple[int, Interval]]) -> float:
    if not gone:
        return 0.0
    return (max(seen.estimate for _, seen in gone) - min(at for at, _ in gone)) / NS


def _mean(parts: Sequence[Mapping[str, int]], order: Sequence[str]) -> dict[str, float]:
    """Mean of each phase over the servers, the known ones first and in their order; they add up to the mean time."""
    names = [*order, *sorted({name for part in parts for name in part} - set(order))]
    return {name: sum(part.get(name, 0) for part in parts) / len(parts) / NS for name in names}


def _server(happened: Happened, track: Track, parts: Mapping[str, int]) -> dict[str, Any]:
    def since(ns: int) -> float | None:
        return (ns - happened.begin_ns) / NS if ns else None

    def both(interval: Interval | None) -> list[float] | None:
        return None if interval is None else [(end - happened.begin_ns) / NS for end in interval]

    active = happened.active.get(track.name)
    return {
        "name": track.name,
        "id": track.id,
        "due_s": since(track.due_ns),
        "sent_s": since(track.sent_ns),
        "accepted_s": since(track.accepted_ns),
        "running_s": since(track.running_ns),
        "states": [{"state": state, "seen_s": both(interval)} for state, interval in track.entries],
        "active_s": both(active),
        "active_at_s": since(active.estimate) if active is not None else None,
        "phases_s": {name: ns / NS for name, ns in parts.items()},
        "notifications_s": {what: since(ns) for what, ns in happened.stamps.get(track.name, {}).items()},
        "unheard_s": both(happened.unheard.get(track.name)),
        "served_s": both(happened.served.get(track.name)),
        "deleted_s": since(track.delete_ns),
        "gone_s": both(track.gone),
        "problem": track.problem,
        "events": [event.to_json() for event in happened.events.get(track.name, ())],
    }
