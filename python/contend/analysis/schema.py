"""JSON Schema of the analysis document: `python -m contend.report.schema > docs/reference/analysis.schema.json`.

Every object is closed, so that a field added to `to_json` without a place here fails the tests.
"""

from __future__ import annotations

import json

from contend.document import SCHEMA_VERSION
from contend.report.context_schema import context
from contend.report.definitions import DEFINITIONS
from contend.report.fleet_schema import fleet
from contend.report.schema_parts import COUNT, FACTORS, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref
from contend.studies import base as studies


def analysis_schema() -> Schema:
    """The schema as a document of draft 2020-12."""
    own: dict[str, Schema] = {}
    for _, study in studies.every():
        own |= study.schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend analysis",
        **closed(
            "What a run says: findings.json, and what --json prints.",
            (
                "schedules",
                *own,
                "fleet",
                "context",
                "damage",
            ),
            schema_version={"const": SCHEMA_VERSION},
            run=TEXT,
            study=TEXT,
            title=TEXT,
            answer=TEXT,
            design=ref("design"),
            cells=many(ref("cell")),
            controls=many(ref("control")),
            findings=many(ref("finding")),
            skipped=TEXTS,
            failed=TEXTS,
            flags={"type": "object", "additionalProperties": COUNT},
            trials=COUNT,
            alibis=many(ref("cell_alibi")),
            phase_alibis=many(ref("phase_alibi")),
            schedules=many(ref("cell_schedule")),
            probe=maybe(
                closed(
                    "What recording the run cost.",
                    samples=COUNT,
                    cpu_ns=COUNT,
                    bpf_ns={**COUNT, "description": "of BPF programs; 0 where the kernel does not count it"},
                    span_ns={**COUNT, "description": "time covered by the samples"},
                    share={**NUMBER, "description": "of one CPU"},
                )
            ),
            **own,
            fleet=fleet(),
            context=context(),
            damage=many(
                closed(
                    "What of the run's files could not be read and was left out.",
                    file={**TEXT, "description": "within the run directory"},
                    where={**TEXT, "description": "row or key; empty for the whole file"},
                    what=TEXT,
                )
            ),
        ),
        "$defs": DEFINITIONS,
    }


def comparison_schema() -> Schema:
    """The schema of `contend compare --json`."""
    change = closed(
        "One cell of both runs, one metric. The estimate is above 1 where the second run is worse.",
        factors=FACTORS,
        metric=ref("metric"),
        baseline=ref("level"),
        treatment=ref("level"),
        estimate=ref("estimate"),
        sessions={
            **COUNT,
            "description": "earlier unchanged runs that the doubt between runs was taken from",
        },
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend comparison of two runs",
        **closed("Two runs.", schema_version={"const": SCHEMA_VERSION}, cells=many(change), warnings=TEXTS),
        "$defs": DEFINITIONS,
    }


def render_schema() -> str:
    return json.dumps(analysis_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(render_schema(), end="")
