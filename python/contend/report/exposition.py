"""OpenMetrics text exposition, 1.0: families with their type, unit and help, then their samples, then the end.

https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. `kind`: counter, gauge or info; a name ends with its unit. `created`: when a counter began,
    in seconds since 1970."""

    name: str
    kind: str
    unit: str
    about: str
    samples: Sequence[tuple[Mapping[str, str], float]]
    created: float | None = None


def exposition(families: Iterable[Family]) -> str:
    """
    >>> print(exposition([Family("a_bytes", "counter", "bytes", "All.", [({"d": "x"}, 2)], created=1.5)]), end="")
    # TYPE a_bytes counter
    # UNIT a_bytes bytes
    # HELP a_bytes All.
    a_bytes_total{d="x"} 2.0
    a_bytes_created{d="x"} 1.5
    # EOF
    """
    lines: list[str] = []
    for family in families:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {escape(family.about)}")
        suffix = {"counter": "_total", "info": "_info"}.get(family.kind, "")
        for labels, value in family.samples:
            text = ",".join(f'{key}="{escape(item)}"' for key, item in labels.items())
            braces = f"{{{text}}}" if text else ""
            lines.append(f"{family.name}{suffix}{braces} {number(value)}")
            if family.created is not None:
                lines.append(f"{family.name}_created{braces} {number(family.created)}")
    return "\n".join([*lines, "# EOF", ""])


def escape(text: str) -> str:
    """Escape a label's value or a help text."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """
    >>> number(float("inf")), number(3)
    ('+Inf', '3.0')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
