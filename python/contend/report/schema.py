"""JSON Schema of the analysis document: `python -m contend.report.schema > docs/reference/analysis.schema.json`.

Every object is closed, so that a field added to `to_json` without a place here fails the tests.
"""

from __future__ import annotations

import json
from typing import Any

from contend.analysis import SCHEMA_VERSION
from contend.contention.alibi import verdict as alibi
from contend.sample.summary import SCHEMA_VERSION as SUMMARY_VERSION
from contend.stats.estimate import VERDICTS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"type": "array", "items": TEXT}
FACTORS: Schema = {"type": "object", "additionalProperties": TEXT}


def maybe(schema: Schema, about: str = "") -> Schema:
    return {"anyOf": [schema, {"type": "null"}], **({"description": about} if about else {})}


def closed(about: str, optional: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_ESTIMATE: dict[str, Schema] = {
    "value": maybe(NUMBER),
    "low": maybe(NUMBER, "null where the data give no bound"),
    "high": maybe(NUMBER, "null where the data give no bound"),
    "unit": TEXT,
    "n": {**COUNT, "description": "independent units: blocks, runs or hosts, never iterations"},
    "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "method": TEXT,
    "verdict": {"enum": list(VERDICTS)},
    "warnings": TEXTS,
}
_QUANTITIES: Schema = {
    "type": "object",
    "additionalProperties": closed("A median over the cell's trials.", value=NUMBER, unit=TEXT),
}

DEFINITIONS: dict[str, Schema] = {
    "estimate": closed("A value with its interval.", ("warnings",), **_ESTIMATE),
    "metric": closed(
        "What was measured.",
        name=TEXT,
        unit=TEXT,
        better={"enum": ["higher", "lower"]},
        loop={"enum": ["open", "closed", ""]},
        primary={"type": "boolean"},
    ),
    "level": closed(
        "One cell's own level: the median over its trials, and the trials.",
        ("warnings",),
        **_ESTIMATE,
        values=many(NUMBER),
        blocks=many(COUNT),
        flagged={
            **many(COUNT),
            "description": "positions in `values` of trials whose surroundings were flagged",
        },
    ),
    "cell": closed(
        "A treatment against its baseline. The estimate is a slowdown (> 1 is worse); in a compare study it is "
        "treatment / baseline as measured.",
        cell=TEXT,
        factors=FACTORS,
        metric=ref("metric"),
        baseline=ref("level"),
        treatment=ref("level"),
        estimate=ref("estimate"),
        evidence=_QUANTITIES,
        baseline_evidence=_QUANTITIES,
    ),
    "control": closed(
        "The A/A control: the same cell under two labels.",
        factors=FACTORS,
        metric=ref("metric"),
        estimate=ref("estimate"),
        detectable=maybe(NUMBER, "smallest relative effect seen with 80 % power, 0.02 = 2 %"),
        alarm={"type": "boolean"},
    ),
    "evidence": closed("One observed quantity.", what=TEXT, value=NUMBER, unit=TEXT, where=TEXT),
    "finding": closed(
        "What slowed whom.",
        ("edit",),
        id=TEXT,
        kind=TEXT,
        subject=TEXT,
        resource=TEXT,
        sentence=TEXT,
        share=maybe({"type": "number"}, "part of the effect that the evidence explains"),
        estimate=ref("estimate"),
        evidence=many(ref("evidence")),
        advice=TEXT,
        verify={**TEXT, "description": "a command line, or empty"},
        edit={**TEXT, "description": "of a hunt: the change, as `contend whatif` takes it"},
    ),
    "phase_alibi": closed(
        "What the hardware did in a phase of the run, or in all of it, by the series recorded.",
        phase={**TEXT, "description": "run, from its first trial to its last; pilot; counted"},
        verdict={"enum": list(alibi.VERDICTS)},
        subject=TEXT,
        text=TEXT,
        start_ns={"type": "integer", "description": "CLOCK_MONOTONIC"},
        end_ns={"type": "integer"},
    ),
    "cell_alibi": closed(
        "What the hardware did while a cell was measured, by the series recorded beside its trials.",
        cell=TEXT,
        factors=FACTORS,
        verdict={"enum": list(alibi.VERDICTS)},
        subject=TEXT,
        trials={**COUNT, "description": "counted trials that hold samples, the first thirty"},
        agreeing={**COUNT, "description": "of them, those with this verdict"},
        text=TEXT,
        party_verdict={
            "enum": ["", *alibi.VERDICTS],
            "description": "what held the measured party up; empty: its processes were not told apart",
        },
        party_agreeing=COUNT,
        party_text=TEXT,
    ),
    "cell_schedule": closed(
        "How long a cell's tasks ran and waited for a CPU: all its counted trials together. Absent without histograms.",
        cell=TEXT,
        factors=FACTORS,
        trials={**COUNT, "description": "counted trials that were seen"},
        window_ns={**COUNT, "description": "time of these trials"},
        on_cpu_ns={**COUNT, "description": "of all tasks together, like the next"},
        run_queue_ns={**COUNT, "description": "runnable without a CPU"},
        switches=COUNT,
        migrations=COUNT,
        counts={
            "type": "object",
            "description": "by kind (on_cpu, off_cpu, run_queue): [least ns of a bucket, how many times were that long]",
            "additionalProperties": many(many(COUNT)),
        },
    ),
    "design": closed(
        "How the numbers were made.",
        seed={"type": "integer"},
        blocks=COUNT,
        kind=TEXT,
        estimand=TEXT,
        intervals=TEXT,
        simultaneous=COUNT,
        target=maybe(NUMBER, "wanted relative half-width"),
        target_reached={"type": "object", "additionalProperties": {"type": "boolean"}},
        stopped=TEXT,
        spiky=maybe(NUMBER, "share of spiky runs in the pilot"),
        warmup={"type": "object", "additionalProperties": COUNT},
    ),
}


def analysis_schema() -> Schema:
    """The schema as a document of draft 2020-12."""
    from contend.report.context_schema import context
    from contend.report.growth_schema import growth
    from contend.report.overhead_schema import overhead

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend analysis",
        **closed(
            "What a run says: findings.json, and what --json prints.",
            ("schedules", "storms", "growth", "overhead", "context"),
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
            storms=_storms(),
            growth=growth(),
            overhead=overhead(),
            context=context(),
        ),
        "$defs": DEFINITIONS,
    }


def _storms() -> Schema:
    counts: Schema = {"type": "object", "additionalProperties": COUNT}
    numbers: Schema = {"type": "object", "additionalProperties": NUMBER}
    estimates: Schema = {"type": "object", "additionalProperties": ref("estimate")}
    size = closed(
        "All counted storms of one size on one network.",
        cell=TEXT,
        n=COUNT,
        network=TEXT,
        storms=COUNT,
        levels={
            **estimates,
            "description": "of one storm's figures, s: median, p90, max, makespan, accepted …",
        },
        phases_s={
            **numbers,
            "description": "of a mean server, from due to ACTIVE; `guest`: from there to its answer, if all answered",
        },
        cpu_s_per_boot={**numbers, "description": "by role; empty where the cloud runs elsewhere"},
        failed=COUNT,
        counts_per_boot={
            **estimates,
            "description": "by the cloud's own counters, without the background and the polls: statements,"
            " `statements of NAME`, commits, messages …; empty where they cannot be read",
        },
        serving=maybe(
            closed(
                "The guests, by TCP or HTTP to their own addresses.",
                answered=COUNT,
                at_once={**COUNT, "description": "to the first attempt: not known to be the guest"},
                timed_out={**COUNT, "description": "no answer in time"},
                levels={
                    **estimates,
                    "description": "s from due to the answer, none unless all answered; after_active and guest (a mean"
                    " one's) from ACTIVE; width: of the interval in which it came",
                },
            )
        ),
    )
    growth = closed(
        "The batch law of the sizes on one network; median, p90 and makespan, ns.",
        network=TEXT,
        start=estimates,
        per_server=estimates,
    )
    networks = closed(
        "One size on two networks: ratio of medians within blocks.",
        n=COUNT,
        baseline=TEXT,
        treatment=TEXT,
        estimate=ref("estimate"),
    )
    return closed(
        "What the storms of a storm study say together.",
        sizes=many(size),
        growth=many(growth),
        networks=many(networks),
        problems={
            **counts,
            "description": "machines that did not come to what was awaited, by what their maker said",
        },
        requests={**counts, "description": "requests, and what went wrong with them"},
        background_per_s={**numbers, "description": "what the counters count while nothing is asked for"},
        per_poll={**numbers, "description": "and for one of our polls"},
        stamps=maybe(
            closed(
                "What nova's notifications say of what was seen without them.",
                heard={**COUNT, "description": "servers"},
                inside={**COUNT, "description": "of these, stamps inside the interval that was seen"},
                error_s={**NUMBER, "description": "from the interval's middle to the stamp, median"},
                largest_error_s=NUMBER,
            )
        ),
        traced=maybe(
            closed(
                "What the services' own traces say of one boot.",
                services={
                    "type": "object",
                    "additionalProperties": {"type": "object", "additionalProperties": numbers},
                    "description": "by cell and service: statements, commits, rollbacks, calls, casts, replies",
                },
                findings=many(
                    closed("A finding of the hunt.", sentence=TEXT, advice=TEXT, kind=TEXT, resource=TEXT)
                ),
                jobs={**TEXT, "description": "what the hunt took for boots"},
                command={**TEXT, "description": "shows the rest"},
                why={**TEXT, "description": "why there is nothing"},
            )
        ),
        disagree={**COUNT, "description": "servers whose own stamps contradict what the client saw"},
        awaited={**TEXT, "description": "what a storm waits for: ACTIVE, served"},
        platform={
            **TEXT,
            "description": "what machines of this host were, emulated or not; `bare` for a cloud's servers",
        },
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
            schema_version={"const": alibi.SCHEMA_VERSION},
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
        "$defs": {"saturation": _SATURATION, "evidence": DEFINITIONS["evidence"]},
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


def render_schema() -> str:
    return json.dumps(analysis_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(render_schema(), end="")
