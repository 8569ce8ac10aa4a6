"""Definitions that several of contend's documents refer to, by the name that they have there."""

from __future__ import annotations

from contend.contention.alibi import verdict as alibi
from contend.report.schema_parts import COUNT, FACTORS, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref
from contend.stats.estimate import VERDICTS

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
        ("quotas", "quotas_unknown"),
        cell=TEXT,
        factors=FACTORS,
        metric=ref("metric"),
        baseline=ref("level"),
        treatment=ref("level"),
        estimate=ref("estimate"),
        evidence=_QUANTITIES,
        baseline_evidence=_QUANTITIES,
        quotas=many(ref("quota")),
        quotas_unknown={
            **TEXT,
            "description": "why it cannot be told whether a CPU quota held the victim back",
        },
    ),
    "quota": closed(
        "A CPU quota that held the victim back while a cell was measured: medians over its trials.",
        group=TEXT,
        cpus=maybe(NUMBER, "null where it was gone when it was read"),
        whose={
            "enum": ["own", "above", "below"],
            "description": "above: of a group that contend itself was in",
        },
        throttled_s=NUMBER,
        periods=COUNT,
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
