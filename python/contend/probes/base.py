"""The seam of everything that records while trials run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    Column = np.ndarray[Any, np.dtype[Any]]

    # Columns of equal length; numbers as unsigned 64-bit integers, names as objects.
    Table = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Scope:
    """From where to record.

    `cpus` are those the probe itself keeps to, not the victim's if there are others; None: any.
    """

    cpus: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a probe itself used and missed since its start.

    cpu_ns is its own CPU time, bpf_ns that of its BPF programs on whatever CPU they ran, `late_max_ns` the latest a
    sample ever was, `dropped` counts samples that no room was left for, `errors` reads that failed (`last_error` says
    how the last one did).
    """

    cpu_ns: int
    samples: int
    bpf_ns: int = 0
    late_max_ns: int = 0
    dropped: int = 0
    errors: int = 0
    last_error: str = ""


class Probe(Protocol):
    """Records between `start` and `stop`. Both are idempotent; a stopped probe cannot be started again."""

    name: str

    def start(self, scope: Scope) -> None:
        """Begin. Raises ContendError where this machine cannot give what the probe needs."""
        ...

    def stop(self) -> Mapping[str, Table]:
        """End, and what was recorded and not handed out yet, by table name."""
        ...

    def cost(self) -> Cost: ...
