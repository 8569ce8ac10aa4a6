"""Work of a cloud's services in a window of time, by their own traces: statements, commits and RPCs, by service."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from contend import _native

# By the names of spans, as `contend.trace` gives them.
_WHAT = (
    ("statements", re.compile(r"(?:SELECT|INSERT|REPLACE|UPDATE|DELETE|WITH)\b", re.IGNORECASE)),
    ("commits", re.compile(r"COMMIT$")),
    ("rollbacks", re.compile(r"ROLLBACK$")),
    ("calls", re.compile(r"rpc call ")),
    ("casts", re.compile(r"rpc cast ")),
    ("replies", re.compile(r"rpc send reply$")),
)
Window = tuple[int, int]
Work = Mapping[str, Mapping[str, float]]
"""By service: how many of each."""


def what(name: str) -> str:
    """The kind of a span by its name; "" for one that is not counted.

    >>> what("SELECT nova.instances"), what("rpc call object_action"), what("HTTP GET 127.0.0.1/")
    ('statements', 'calls', '')
    """
    return next((kind for kind, pattern in _WHAT if pattern.match(name)), "")


def counts(traces: Path, windows: Sequence[Window]) -> list[dict[str, dict[str, int]]]:
    """Count spans for each window, ns of CLOCK_MONOTONIC of the traces' machine: by service, how many began of each
    kind.

    Files of services that go on are read as far as they are written (a quarter of a second behind). Raises BadInput
    where there is no trace, HostFailed.
    """
    order = sorted(range(len(windows)), key=lambda at: windows[at])
    table = _native.ctrace_windows([str(traces)], [windows[at] for at in order])
    by_window: list[dict[str, dict[str, int]]] = [{} for _ in windows]
    columns = (np.frombuffer(table[key], dtype="<u8").tolist() for key in ("window", "count"))
    for window, count, name, process in zip(*columns, table["name"], table["process"], strict=True):
        if kind := what(name):
            of = by_window[order[window]].setdefault(process, {})
            of[kind] = of.get(kind, 0) + count
    return by_window


def per_item(
    during: Mapping[str, Mapping[str, int]],
    quiet: Mapping[str, Mapping[str, int]],
    share: float,
    others: Work,
    items: int,
) -> dict[str, dict[str, float]]:
    """Counts per item: less `share` of what a quiet time saw, and less what `others` took.

    >>> per_item({"api": {"statements": 30}}, {"api": {"statements": 20}}, 0.5, {}, 4)
    {'api': {'statements': 5.0}}
    """
    return {
        service: {
            kind: (count - share * quiet.get(service, {}).get(kind, 0) - others.get(service, {}).get(kind, 0))
            / items
            for kind, count in of.items()
        }
        for service, of in during.items()
    }


def length(window: Window) -> int:
    """Length of a window, ns."""
    return window[1] - window[0]
