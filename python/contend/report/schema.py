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
from contend.studies.growth.schema import growth
from contend.studies.imported.schema import imported
from contend.studies.overhead.schema import overhead
from contend.studies.placement.schema import placement
from contend.studies.sensitivity.schema import sensitivity
from contend.studies.storage.schema import sweep
from contend.studies.storm.schema import storms


def analysis_schema() -> Schema:
    """The schema as a document of draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend analysis",
        **closed(
            "What a run says: findings.json, and what --json prints.",
            (
                "schedules",
                "storms",
                "growth",
                "overhead",
                "placement",
                "imported",
                "crowds",
                "fleet",
                "sensitivity",
                "sweep",
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
            storms=storms(),
            growth=growth(),
            overhead=overhead(),
            placement=placement(),
            imported=imported(),
            crowds=many(_crowd()),
            fleet=fleet(),
            sensitivity=sensitivity(),
            sweep=sweep(),
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


def _crowd() -> Schema:
    return closed(
        "An application, more and more of it at once.",
        application=TEXT,
        metric=TEXT,
        wants=maybe(NUMBER, "CPUs that one uses alone"),
        cpus=COUNT,
        full_from=maybe(NUMBER, "how many of it fill the CPUs"),
        slowed_from=maybe(COUNT, "the least number that is slowed beyond its interval"),
        points=many(
            closed(
                "So many at once.",
                copies=COUNT,
                slowdown=ref("estimate"),
                fair=maybe(NUMBER, "the slowdown that CPU time alone would make"),
                beyond={"type": "boolean", "description": "more than that, beyond the interval"},
            )
        ),
    )


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
        "$defs": {name: DEFINITIONS[name] for name in ("estimate", "metric", "level")},
    }


def render_schema() -> str:
    return json.dumps(analysis_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(render_schema(), end="")
