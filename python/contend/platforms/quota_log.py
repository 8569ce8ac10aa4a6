"""Throttling of a traced command by CPU quotas, and when: a file beside its traces.

A trace has how long each thread was ready without a CPU. The kernel counts throttled time as that too, so whoever reads a
trace has to know both. Rows are written when the throttled time has grown, at most one an interval.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from contend import files
from contend.errors import BadInput
from contend.platforms import kin
from contend.platforms.quotas import QuotaWatch, quota_name
from contend.store.damage import note

FILE = "quotas.ndjson"
_LOOK_S = 0.1
_MOST_BYTES = 1 << 26


class Held(NamedTuple):
    """Throttled time up to a moment (CLOCK_MONOTONIC), ns, summed over CPUs. `unknown`: why there is none."""

    t_ns: int
    throttled_ns: int
    quota: str = ""
    """Where it stands, in words."""
    unknown: str = ""


@contextmanager
def logging(directory: Path) -> Iterator[None]:
    """Log throttling of what this process starts in the block into `directory`, which has to exist at its end."""
    watch, end, rows = QuotaWatch(), threading.Event(), [Held(time.monotonic_ns(), 0)]

    def look() -> None:
        watch.look({os.getpid(), *kin.below(os.getpid())})
        throttling = watch.throttling()
        lead = throttling.quotas[0] if throttling.quotas else None
        held_ns = round(throttling.held_s * 1e9) if throttling.held_s is not None else 0
        quota = "" if lead is None else quota_name(lead)
        new = Held(time.monotonic_ns(), held_ns, quota, throttling.unknown)
        if new[1:] != rows[-1][1:]:
            rows.append(new)

    def run() -> None:
        while not end.wait(_LOOK_S):
            with suppress(OSError):
                look()

    look()
    thread = threading.Thread(target=run, name="quotas", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        with suppress(OSError):
            look()
            text = "".join(json.dumps(row._asdict()) + "\n" for row in rows)
            files.write(directory / FILE, text.encode())


class Throttled(NamedTuple):
    """Throttled time in a window. ns: None where it is not on record, for the reason in `unknown`."""

    ns: int | None = None
    quota: str = ""
    unknown: str = "the trace has no record of CPU quotas"


def between(source: Path, begin_ns: int, end_ns: int) -> Throttled:
    """Throttling of a traced command in [begin_ns, end_ns]; a part of a row that reaches beyond counts as such a
    part."""
    directory = source if source.is_dir() else source.parent
    try:
        lines = files.read_inside(directory / FILE, most=_MOST_BYTES).split(b"\n")
        rows = [Held(**json.loads(line)) for line in lines if line]
        rows = [Held(int(row.t_ns), int(row.throttled_ns), str(row.quota), str(row.unknown)) for row in rows]
    except FileNotFoundError:
        return Throttled()
    except (OSError, BadInput, ValueError, TypeError) as error:
        note(directory / FILE, "", str(error))
        return Throttled(unknown=f"{FILE} cannot be read")
    if not rows or (rows[-1].unknown and not rows[-1].throttled_ns):
        return Throttled(unknown=rows[-1].unknown if rows else f"{FILE} is empty")
    total = 0.0
    for before, after in itertools.pairwise(rows):
        # It grew within one interval before the row, or since the row before.
        start = max(before.t_ns, after.t_ns - 2 * round(_LOOK_S * 1e9))
        inside = min(end_ns, after.t_ns) - max(begin_ns, start)
        part = min(1.0, max(0.0, inside / max(1, after.t_ns - start)))
        total += (after.throttled_ns - before.throttled_ns) * part
    quota = next((row.quota for row in reversed(rows) if row.quota), "")
    return Throttled(round(total) if math.isfinite(total) else None, quota, "")
