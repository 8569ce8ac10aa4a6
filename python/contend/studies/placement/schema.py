"""JSON Schema of what a placement study says: `placement` of the analysis document."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, TEXT, TEXTS, Schema, closed, many, maybe, ref
from contend.studies.placement.result import KINDS, METRICS


def placement() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    by_pairs: Schema = {"type": "object", "additionalProperties": ref("estimate")}
    effect = closed(
        "What one factor changes: a ratio within blocks. Those of one metric hold together.",
        kind={"enum": list(KINDS)},
        metric={"enum": list(METRICS)},
        conditions=TEXT,
        encapsulation={**TEXT, "description": "of the cells between hosts"},
        ratio=ref("estimate"),
        meaning=TEXT,
    )
    added = closed(
        "CPU time of the whole machine for 10^9 bytes that one place takes beyond another.",
        what=TEXT,
        conditions=TEXT,
        over=TEXT,
        under=TEXT,
        seconds=ref("estimate"),
    )
    aggregate = closed(
        "Throughput of all pairs together in one place, by their number.",
        place=TEXT,
        levels=by_pairs,
        over_least={**by_pairs, "description": "over that of the fewest pairs"},
        steps={**by_pairs, "description": "over that of the next fewer pairs"},
        knee=maybe(COUNT, "pairs from which on more certainly add less than a twentieth; null: none reached"),
        contention=maybe(
            ref("estimate"), "of the universal scalability law, where so many numbers were measured"
        ),
        coherency=maybe(ref("estimate")),
        peak=maybe(ref("estimate")),
    )
    claim = closed(
        "What others said, held against this run.",
        id=TEXT,
        claim=TEXT,
        verdict={"enum": ["confirmed", "refuted", "cannot tell"]},
        said=TEXTS,
    )
    return closed(
        "What the cells of a placement study say together.",
        ends={**TEXT, "description": "what the instances are"},
        effects=many(effect),
        added=many(added),
        aggregates=many(aggregate),
        claims=many(claim),
    )
