"""JSON Schema of a component's cost in context: `context` of the analysis document, and `contend context --json`."""

from __future__ import annotations

from contend.context.costs import WORKLOADS
from contend.context.effect import SCHEMA_VERSION
from contend.context.terms import AT_LEAST, AT_MOST, HOWS
from contend.report.definitions import DEFINITIONS
from contend.report.schema_parts import COUNT, TEXT, TEXTS, Schema, closed, many, maybe, ref

_BOUND: Schema = {"enum": ["", AT_LEAST, AT_MOST]}


def context() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    share = closed(
        "One part's share, a fraction: of the CPU time of all roles, or of the time to ACTIVE.",
        what=TEXT,
        how={"enum": list(HOWS), "description": "; ".join(f"{how}: {about}" for how, about in HOWS.items())},
        bound=_BOUND,
        known={"type": "boolean", "description": "whether the run has this part's ratio of costs"},
        estimate=ref("estimate"),
    )
    variant = closed(
        "In the place of the baseline.",
        variant=TEXT,
        cost={**ref("estimate"), "description": "of the component as this cloud spends it, a ratio"},
        effect={
            **ref("estimate"),
            "description": "on the CPU time of all, a fraction; below 0: saves. Share × (cost - 1)",
        },
        path=maybe(ref("estimate"), "on the time to ACTIVE, a fraction; null where nothing tells"),
    )
    return closed(
        "What a component's cost is in the storms of a cloud.",
        schema_version={"const": SCHEMA_VERSION},
        run=TEXT,
        of={**TEXT, "description": "the storm's run"},
        place={**TEXT, "description": "its directory"},
        component={"enum": sorted(set(WORKLOADS.values()))},
        baseline={**TEXT, "description": "the variant that the cloud is taken to run"},
        n={**COUNT, "description": "servers of a storm: the largest size"},
        storms=COUNT,
        blocks=COUNT,
        shares=many(share),
        share={**ref("estimate"), "description": "of all parts whose ratio is known"},
        bound={**_BOUND, "description": "of share and effects"},
        beside={**many(share), "description": "the same by other ways"},
        path=maybe(share),
        variants=many(variant),
        notes={**TEXTS, "description": "what a reader must know, a sentence each"},
    )


def context_schema() -> Schema:
    """Of `contend context --json`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend context --json",
        **context(),
        "$defs": DEFINITIONS,
    }
