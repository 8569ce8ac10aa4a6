"""Rows of storms as the native code gives them, for tests of what-if."""

from __future__ import annotations

import struct
from typing import Any

MS = 1_000_000


def outcome(*spans: tuple[int, int], **more: Any) -> dict[str, Any]:
    begin, end = ([span[at] * MS for span in spans] for at in (0, 1))
    pack = f"<{len(spans)}Q"
    return {"begin_ns": struct.pack(pack, *begin), "end_ns": struct.pack(pack, *end), "stuck": 0, **more}


def seen(**of: Any) -> dict[str, Any]:
    found = {
        "makespan_ns": 1000 * MS,
        "seen_ns": 0,
        "run_delay_ns": 0,
        "gil_ns": None,
        "pieces_ns": 4000 * MS,
        "cpu": None,
        "replayed": False,
    }
    return {"regime": {**found, **of}, "processors": 2}
