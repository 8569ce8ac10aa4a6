"""Durations on this host before: how long it took to prepare a workload, and to run a trial of it.

A small file of this user's, read before a run to say how long it will take and written after it. It may be deleted at any
time: without it estimates are what the workloads' files say. What it holds changes no result, only estimates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contend import files
from contend.store import state

MOST_KEYS = 2000
MOST_BYTES = 1 << 20
KEPT = 3
"""Figures of one thing that are kept, the newest: the smallest of them is the estimate, since the first time may have
downloaded or built what is there the second time."""
_LONGEST_S = 1e6
_LONGEST_KEY = 400


@dataclass(frozen=True, slots=True)
class Experience:
    """Durations of earlier trials and preparations: seconds by key, the newest last.

    >>> learnt = Experience().with_("prepare/bare/ffmpeg", 2.0).with_("prepare/bare/ffmpeg", 1.5)
    >>> learnt.seconds("prepare/bare/ffmpeg"), learnt.seconds("prepare/bare/fio")
    (1.5, None)
    """

    known: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def seconds(self, key: str) -> float | None:
        """The shortest known duration, seconds; None for what was never done here."""
        times = self.known.get(key[:_LONGEST_KEY])
        return min(times) if times else None

    def with_(self, key: str, seconds: float) -> Experience:
        """A copy with one more duration. Beyond MOST_KEYS keys, the one that was learnt longest ago is forgotten."""
        key = key[:_LONGEST_KEY]
        if not _sound(seconds):
            return self
        rest = {k: v for k, v in self.known.items() if k != key}
        kept = list(rest.items())[-(MOST_KEYS - 1) :]
        return Experience(dict(kept) | {key: (*self.known.get(key, ()), round(seconds, 3))[-KEPT:]})


NOTHING = Experience()


def path() -> Path:
    """The file $XDG_STATE_HOME/contend/durations.json."""
    return state.folder().parent / "durations.json"


def read() -> Experience:
    """Read durations that were learnt here; empty where there is no such file, or none that can be read."""
    try:
        document = json.loads(files.read_inside(path(), most=MOST_BYTES))
        seconds = document["seconds"]
        return Experience(
            {
                str(key)[:_LONGEST_KEY]: tuple(float(v) for v in values if _sound(v))[-KEPT:]
                for key, values in list(seconds.items())[-MOST_KEYS:]
            }
        )
    except (OSError, files.UnsafeFile, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return NOTHING


def write(learnt: Experience) -> None:
    """Keep durations for the next run. What cannot be written is dropped: estimates are no reason to fail."""
    text = json.dumps({"schema_version": 1, "seconds": {k: list(v) for k, v in learnt.known.items()}})
    try:
        path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write(path(), text.encode(), mode=files.PRIVATE)
    except (OSError, files.UnsafeFile):
        return


def _sound(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value < _LONGEST_S


__all__ = ["NOTHING", "Experience", "path", "read", "write"]
