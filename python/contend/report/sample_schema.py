"""JSON Schema of `contend sample --json`, and of the hardware's alibi of one phase."""

from __future__ import annotations

from contend.contention.alibi import verdict as alibi
from contend.report.definitions import DEFINITIONS
from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref
from contend.sample.summary import SCHEMA_VERSION as SUMMARY_VERSION

_SATURATION: Schema = closed(
    "One resource that was at its limit during a part of the phase.",
    resource={"enum": list(alibi.RESOURCES)},
    subject=TEXT,
    share={**NUMBER, "description": "part of the phase, 0–1"},
    waited={
        **NUMBER,
        "description": "part of the phase in which something waited for it: the order of the list",
    },
    ranges={
        **many({**many({"type": "integer"}), "minItems": 2, "maxItems": 2}),
        "description": "start and end, ns of CLOCK_MONOTONIC",
    },
    evidence=many(ref("evidence")),
    cause={**TEXT, "description": "the resource whose shortage explains this one, or empty"},
)


def alibi_schema() -> Schema:
    """The schema of the hardware's alibi of one phase."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend alibi",
        **closed(
            "Which resource was saturated during one phase, or that none was.",
            schema_version={"const": 1},
            scope={**TEXT, "description": "the party that it is about; empty: the host"},
            verdict={"enum": list(alibi.VERDICTS)},
            subject=TEXT,
            saturated=many(ref("saturation")),
            idle={"type": "object", "additionalProperties": NUMBER, "description": "unused part, 0–1"},
            unknown={**TEXTS, "description": "what could not be judged, and why"},
            notes=TEXTS,
            start_ns={"type": "integer"},
            end_ns={"type": "integer"},
            text=TEXT,
        ),
        "$defs": {"saturation": _SATURATION, **DEFINITIONS},
    }


def sample_schema() -> Schema:
    """The schema of `contend sample --json`, and of summary.json."""
    consumer = closed(
        "All processes of one name.",
        name=TEXT,
        processes=COUNT,
        value={**NUMBER, "description": "in the unit of its list"},
        busiest_thread=maybe(NUMBER, "largest part of an interval that one thread was on a CPU, 0–1"),
    )
    lists = {
        "cpu": "CPUs",
        "run_delay": "seconds waited for a CPU, a second",
        "io": "bytes a second read from and written to disks",
        "memory": "bytes resident, on the average",
    }
    stack = closed(
        "Where tasks blocked, all processes of one name (or of one cgroup) together.",
        subject=TEXT,
        frames={**TEXTS, "description": "outermost first; NAME_[k] is in the kernel"},
        off_cpu_s={**NUMBER, "description": "time until they ran again, added up"},
        count={**COUNT, "description": "times"},
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend recording",
        **closed(
            "What `contend sample` saw.",
            schema_version={"const": SUMMARY_VERSION},
            begin_ns={"type": "integer", "description": "first sample, CLOCK_MONOTONIC"},
            end_ns={"type": "integer", "description": "last sample"},
            samples=COUNT,
            cpus=COUNT,
            memory_bytes={**COUNT, "description": "of the host; 0 where it is not known"},
            verdict=maybe(ref("alibi"), "what was the limit; null with fewer than two samples"),
            party=maybe(ref("alibi"), "what held the command up; null without one, or where it was not seen"),
            host=many(
                closed(
                    "One quantity over the recording; p95 and max are of the intervals between samples.",
                    resource=TEXT,
                    subject={**TEXT, "description": "a device or interface; empty: the host"},
                    what=TEXT,
                    unit=TEXT,
                    mean=NUMBER,
                    p95=NUMBER,
                    max=NUMBER,
                )
            ),
            top={
                "type": "object",
                "properties": {by: {**many(consumer), "description": unit} for by, unit in lists.items()},
                "additionalProperties": False,
            },
            stacks={
                **many(stack),
                "description": "most time off a CPU, with --off-cpu-stacks; of the command's processes where there is one",
            },
            lateness=maybe(closed("How late samples were.", median_ns=COUNT, p99_ns=COUNT, max_ns=COUNT)),
            probe_share=maybe(NUMBER, "the probe's CPU time as a part of one CPU"),
            recording={"type": "object", "description": "sample.json: what was asked, and how it ended"},
        ),
        "$defs": {
            "alibi": {k: v for k, v in alibi_schema().items() if k not in ("$schema", "$defs", "title")},
            **alibi_schema()["$defs"],
        },
    }
