"""JSON Schema of `contend hunt --json`. Every object is closed, as in `contend.analysis.schema`."""

from __future__ import annotations

from contend.contention.hunt import SCHEMA_VERSION
from contend.report.sample_schema import alibi_schema
from contend.report.scaling_json import scaling_schema
from contend.report.schema_parts import COUNT, TEXT, TEXTS, Schema, closed, many, ref

_TIME: Schema = {**COUNT, "description": "ns"}


def hunt_schema() -> Schema:
    """Of one document."""
    jobs = closed(
        "The batch.",
        n=COUNT,
        median_ns=_TIME,
        p90_ns=_TIME,
        makespan_ns={
            **_TIME,
            "description": "ns from the first begin to the last end; of several traces the median",
        },
    )
    alibi = alibi_schema()
    defined = alibi.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend hunt --json",
        **closed(
            "What held a batch of jobs up, ranked. Times are integers in ns.",
            schema_version={"const": SCHEMA_VERSION},
            source=TEXT,
            traces={**COUNT, "description": "that were put together"},
            chosen={**TEXT, "description": "what the jobs are, in a sentence"},
            alibi={"anyOf": [ref("alibi"), {"type": "null"}]},
            no_alibi={**TEXT, "description": "why there is none, and how to get one"},
            jobs=jobs,
            findings=many(ref("finding")),
            hidden={**COUNT, "description": "findings below least_share, or beyond --top"},
            least_share={"type": "number", "minimum": 0, "maximum": 1},
            shares_of=closed(
                "What shares of findings are of: the time of all jobs in sum; where there are none, the length of the"
                " trace (of all traces in sum), of which threads together may wait more than all.",
                what={"enum": ["jobs", "trace"]},
                ns=_TIME,
            ),
            looked_at=TEXTS,
            time=many(
                closed(
                    "Where the jobs' time went, in sum; the largest first.",
                    kind={
                        **TEXT,
                        "description": "running, lock, pool, reply, queue, condition, gil, cpu, suspended, io, sleep,"
                        " blocked",
                    },
                    resource={
                        **TEXT,
                        "description": "name of lock, pool or call; of what is no wait for one the span; or empty",
                    },
                    ns=_TIME,
                )
            ),
            blame=many(
                closed(
                    "Who waited for which lock, and what its holders did meanwhile; the largest first.",
                    lock=TEXT,
                    victim={**TEXT, "description": "the span that waited, or empty"},
                    doing={"enum": ["span", "remote", "waiting", "track", "io", "nobody"]},
                    culprit={**TEXT, "description": "its name"},
                    ns=_TIME,
                )
            ),
            others=many(closed("Beside it: other cells, or --vs.", source=TEXT, traces=COUNT, jobs=jobs)),
            growth={"anyOf": [scaling_schema(), {"type": "null"}]},
            notes=TEXTS,
        ),
        "$defs": {
            **defined,
            "alibi": {key: value for key, value in alibi.items() if key not in ("$schema", "title")},
        },
    }
