"""A pass as a document: every visit with all that was timed in it, and what the cloud's own counters counted meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from contend.clouds.counters import OF, Counters
from contend.clouds.growth.calls import CONTROL, Sampled
from contend.clouds.growth.grow import Happened, Visited

SCHEMA_VERSION = 1


def document(happened: Happened) -> dict[str, Any]:
    """Make a pass's document. Times in seconds; `at_s` since the pass began, the middle of a visit."""
    options = happened.options
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": options.kind,
        "step": options.step,
        "upto": options.upto,
        "rounds": options.rounds,
        "modes": [mode for mode in options.modes if mode not in happened.modes_left_out],
        "left_out": happened.left_out,
        "modes_left_out": happened.modes_left_out,
        "stopped": happened.stopped,
        "reached": happened.reached,
        "visits": [_visit(visited) for visited in happened.visits],
        "fill": [{"population": population, "each_s": each} for population, each in happened.fill_s],
        "problems": dict(happened.problems),
        "requests": happened.counts,
        "left": happened.left,
    }


def _visit(visited: Visited) -> dict[str, Any]:
    control = visited.calls.get(CONTROL)
    return {
        "mode": visited.mode,
        "way": "up" if visited.up else "down",
        "made": visited.made,
        "population": visited.population,
        "at_s": (visited.began_s + visited.ended_s) / 2,
        "flooded_per_s": visited.flooded,
        "control_s": statistics.median(control.took_s) if control is not None and control.took_s else None,
        "calls": {name: _call(sampled) for name, sampled in visited.calls.items() if name != CONTROL},
    }


def _call(sampled: Sampled) -> dict[str, Any]:
    """Counts are the median of a call: what others asked the counted service meanwhile falls out."""
    return {
        "median_s": statistics.median(sampled.took_s) if sampled.took_s else None,
        "took_s": sampled.took_s,
        "counted": {what: statistics.median(counts) for what, counts in sampled.counted.items()},
        "entities": sampled.entities,
        "bytes": sampled.size_bytes,
    }


SQL, MESSAGES = "SQL", "messages"
# How the database users and schemas of a service are called, where statements are told apart by them.
_OWN: Mapping[str, tuple[str, ...]] = {
    "compute": ("nova", "placement"),
    "network": ("neutron",),
    "image": ("glance",),
    "block-storage": ("cinder",),
    "identity": ("keystone",),
}


class CloudMeter:
    """SQL statements and messages so far; statements of the service's own users or schemas, where those are told apart:
    then what other services do meanwhile does not count."""

    def __init__(self, counters: Counters, service: str) -> None:
        self._counters, self._service = counters, service

    def read(self) -> Mapping[str, int]:
        """Raises HostFailed."""
        return of_service(self._counters.read().counts, self._service)


def of_service(counts: Mapping[str, int], service: str) -> dict[str, int]:
    """
    >>> of_service({"statements": 9, "statements of nova_api": 5, "statements of neutron": 3, "messages": 2}, "network")
    {'SQL': 3, 'messages': 2}
    >>> of_service({"statements": 9}, "network")
    {'SQL': 9}
    """
    totals = {}
    if "statements" in counts:
        start = tuple(f"statements{OF}{name}" for name in _OWN[service])
        own = [count for name, count in counts.items() if name.startswith(start)]
        totals[SQL] = sum(own) if own else counts["statements"]
    return totals | ({MESSAGES: counts["messages"]} if "messages" in counts else {})
