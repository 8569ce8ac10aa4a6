"""JSON Schema of what a growth study says: `growth` of the analysis document."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, NUMBER, TEXT, Schema, closed, many, maybe, ref
from contend.stats.trend import SHAPES


def growth() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    counts: Schema = {"type": "object", "additionalProperties": COUNT}
    counted = closed(
        "What is counted, or how large the answer is: with no entities, and for every 100 more.",
        start=ref("estimate"),
        slope=ref("estimate"),
        shape={"enum": list(SHAPES)},
    )
    call = closed(
        "One call by population. Latencies in s.",
        call=TEXT,
        start=ref("estimate"),
        at_largest=ref("estimate"),
        largest={**NUMBER, "description": "entities in the largest visit"},
        slope=ref("estimate"),
        slope_together={**ref("estimate"), "description": "its interval holds with all others of the run"},
        bend=maybe(ref("estimate"), "what the slope gains with every 100 more"),
        shape={"enum": list(SHAPES)},
        breaks={
            **ref("estimate"),
            "description": "the population from which on a typical call misses the SLO",
        },
        counted={"type": "object", "additionalProperties": counted},
        bytes=maybe(counted, "of the answer"),
        beside={
            "type": "object",
            "additionalProperties": ref("estimate"),
            "description": "by mode, latency as a multiple of that in quiet",
        },
        flagged={"type": "boolean", "description": "its work grows with the population"},
        visits=many({"type": "array", "items": NUMBER, "description": "population, s, control s, at s"}),
    )
    kind = closed(
        "All passes over one kind of entity.",
        kind=TEXT,
        passes=COUNT,
        reached=COUNT,
        left_out={**TEXT, "description": "why there are no figures; empty where there are"},
        modes_left_out={"type": "object", "additionalProperties": TEXT},
        stopped=TEXT,
        calls=many(call),
        control=maybe(ref("estimate"), "slope of the call that looks at no entities"),
        control_alarm={"type": "boolean"},
        flooded_per_s={"type": "object", "additionalProperties": NUMBER},
    )
    return closed(
        "What the passes of a growth study say together.",
        slo_s=NUMBER,
        kinds=many(kind),
        problems={**counts, "description": "calls that failed, by what the cloud said"},
        requests={**counts, "description": "requests, and what went wrong with them"},
    )
