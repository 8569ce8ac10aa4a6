"""Storms of several sizes as machines read them: the key `scaling` of `contend hunt --json`."""

from __future__ import annotations

from typing import Any

from contend.contention.scaling import Growth, Scaling
from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref
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


def scaling_schema() -> Schema:
    """Schema of that key; `estimate` must be among the definitions."""
    estimate = ref("estimate")
    lines = ("median", "p90", "makespan")
    held_out = closed(
        "The line without its largest N, followed to it.",
        jobs=COUNT,
        predicted=estimate,
        measured_ns=COUNT,
        error={**NUMBER, "description": "predicted over measured, less 1"},
        inside={"type": "boolean"},
    )
    line = closed("A line over N.", start=estimate, slope=estimate, held_out=maybe(held_out))
    part = closed(
        "How the time of a mean job grows.",
        kind={**TEXT, "description": "as in time, or span"},
        name=TEXT,
        slope=estimate,
        share={**NUMBER, "description": "of the growth of the whole"},
    )
    demand = closed(
        "How long one job keeps a resource busy, at the largest N.",
        kind={"enum": ["lock", "pool"]},
        name=TEXT,
        demand=estimate,
        busy={**NUMBER, "description": "part of the makespan"},
    )
    storm = closed("One trace.", (), source=TEXT, jobs=COUNT, **{f"{name}_ns": COUNT for name in lines})
    return closed(
        "What grows with the number of jobs, from traces of several sizes (docs/concepts/scaling.md).",
        storms=many(storm),
        law=closed("The batch law.", (), **dict.fromkeys(lines, line)),
        order={**estimate, "description": "slope of the median over that of the makespan"},
        parts=many(part),
        spans=many(part),
        demands=many(demand),
        serial=maybe(TEXT, "the resource that is a serial section, where that is proven"),
        alibi=maybe(TEXT, "verdict on the hardware in all of them"),
        limit_ns=maybe(COUNT),
        breaks=closed(
            "By what of the jobs: the N that breaks the limit.", lines, **dict.fromkeys(lines, estimate)
        ),
        warnings=TEXTS,
    )


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
