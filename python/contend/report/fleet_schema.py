"""JSON Schema of what a run on several hosts says: `fleet` of the analysis document."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref


def fleet() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    whole: Schema = {"type": "integer"}
    offset = closed(
        "The host's clock minus the starting machine's, true within bound_ns, at a moment of the latter's.",
        offset_ns=whole,
        bound_ns=COUNT,
        at_ns=COUNT,
    )
    clock = closed(
        "The host's clock, as NTP estimates it.",
        clock={"const": "CLOCK_MONOTONIC"},
        start=offset,
        end=maybe(offset),
        drift=maybe(closed("Parts per million.", ppm=NUMBER, bound_ppm=NUMBER)),
    )
    ratio = closed(
        "A headline comparison on this host.", label=TEXT, cell=TEXT, metric=TEXT, estimate=ref("estimate")
    )
    host = closed(
        "One host.",
        host=TEXT,
        state={"enum": ["waiting", "running", "lost", "given up", "failed", "ended", "not heard of"]},
        why=TEXT,
        finished={**COUNT, "description": "counted trials with a result"},
        planned={**COUNT, "description": "counted trials that its plan has at most"},
        failures=COUNT,
        losses={**COUNT, "description": "how often it was lost"},
        alarm={"type": "boolean", "description": "its own A/A control differs from 1"},
        clock=maybe(clock),
        start_late_ns=maybe(
            whole, "most that a block began after the moment named, where blocks start together"
        ),
        ratios=many(ratio),
    )
    return closed(
        "A run on several hosts.",
        hosts=many(host),
        pooled={"type": "boolean", "description": "estimates of `cells` are over hosts"},
        reason={**TEXT, "description": "why they are not; empty where they are"},
        missing=TEXTS,
    )
