"""Storms of several sizes as machines read them: the key `scaling` of `contend hunt --json`."""

from __future__ import annotations

from typing import Any

from contend.contention.scaling import Growth, Scaling
from contend.stats.scaling import Line


def scaling_document(of: Scaling) -> dict[str, Any]:
    """Times are ns, integers where they were measured; estimates have their intervals."""
    return {
        "storms": [
            {
                "source": storm.source,
                "jobs": storm.jobs,
                **{f"{name}_ns": round(getattr(storm.times, f"{name}_ns")) for name in of.law.lines},
            }
            for storm in of.storms
        ],
        "law": {name: _line(line) for name, line in of.law.lines.items()},
        "order": of.law.order.to_json(),
        "parts": [_growth(growth) for growth in of.parts],
        "spans": [_growth(growth) for growth in of.spans],
        "demands": [
            {**demand.key._asdict(), "demand": demand.estimate.to_json(), "busy": demand.busy}
            for demand in of.demands
        ],
        "serial": of.bottleneck.key.name if of.serial and of.bottleneck is not None else None,
        "alibi": of.alibi or None,
        "limit_ns": of.limit_ns,
        "breaks": {what: told.to_json() for what, told in of.breaks.items()},
        "warnings": list(of.law.warnings),
    }


def _line(line: Line) -> dict[str, Any]:
    check = line.check
    told = None
    if check is not None:
        told = {
            "jobs": check.jobs,
            "predicted": check.predicted.to_json(),
            "measured_ns": round(check.measured),
            "error": check.error,
            "inside": check.inside,
        }
    return {"start": line.start.to_json(), "slope": line.slope.to_json(), "held_out": told}


def _growth(growth: Growth) -> dict[str, Any]:
    return {**growth.key._asdict(), "slope": growth.line.slope.to_json(), "share": growth.share}
