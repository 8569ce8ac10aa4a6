"""JSON Schemas of `contend whatif --json` and of `contend whatif --verify … --json`. Every object is closed."""

from __future__ import annotations

from contend.contention.whatif.prediction import SCHEMA_VERSION
from contend.contention.whatif.times import KEYS
from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TIME: Schema = {**COUNT, "description": "ns"}
_SHARE: Schema = {"type": "number", "minimum": 0}
_YES: Schema = {"type": "boolean"}
_NO_INTERVAL = "null where fewer than four storms were given"
_PREDICTED = closed(
    "For the next storm of the kind, ns.",
    value=_TIME,
    low=maybe(COUNT, _NO_INTERVAL),
    high=maybe(COUNT, _NO_INTERVAL),
)


def _each(about: str, of: Schema) -> Schema:
    """Schema by figure."""
    return closed(about, (), **dict.fromkeys(KEYS, of))


_ALL = _each("Of the jobs' times, and from the first begin to the last end.", _PREDICTED)


def whatif_schema() -> Schema:
    """Schema of one prediction, also of `-o FILE`."""
    return {
        "$schema": _DIALECT,
        "title": "contend whatif --json",
        **closed(
            "A storm replayed with edits. Times are integers in ns.",
            schema_version={"const": SCHEMA_VERSION},
            method={
                "enum": ["replay", "batch law"],
                "description": "batch law: of a run of storms, without traces",
            },
            sources={**TEXTS, "description": "a trace each, one storm; or a run of storms of several sizes"},
            edits={**TEXTS, "description": "as options"},
            jobs={**COUNT, "description": "of a recorded storm, rounded mean"},
            level={**NUMBER, "description": "of the intervals"},
            baseline=_each("As recorded; the mean over the storms.", _TIME),
            predicted=_ALL,
            gate=closed(
                "Whether the prediction may be believed.",
                self_replay_error={
                    **_SHARE,
                    "description": "of the worst storm, replayed without edits: median or makespan; of the batch law"
                    " that of its largest size, predicted from the others",
                },
                passed=_YES,
                reason=maybe(TEXT, "why not"),
                limit=_SHARE,
                latency_share={
                    **_SHARE,
                    "description": "of the jobs' time that is replayed as recorded ways",
                },
                unexplained_share={
                    **_SHARE,
                    "description": "of the jobs' time: waits whose end has no cause on record",
                },
            ),
            regime=closed(
                "Whether the storms wait or compute.",
                kind={"enum": ["blocked", "mixed", "CPU-bound", "not known"]},
                busiest=maybe(NUMBER, "CPU time of the busiest process per time of the storm"),
                cores=maybe(NUMBER, "processors that all traced processes used"),
                waiting=maybe(
                    NUMBER, "part of the time in which a processor or the interpreter's lock was waited for"
                ),
                why=TEXT,
                full=maybe(NUMBER, "part of the storm in which the host's processors were at their limit"),
            ),
            fixes=many(
                closed(
                    "A fix that suggests itself, best first; the last are the best ones together.",
                    edits=TEXTS,
                    predicted=_ALL,
                    gain={**NUMBER, "description": "of the median; negative: worse"},
                    assumes={**TEXT, "description": "what it takes for granted, or empty"},
                )
            ),
            notes={**TEXTS, "description": "what a reader must know, a sentence each"},
        ),
    }


def verification_schema() -> Schema:
    """Schema of one comparison."""
    compared = closed(
        "Inside: every measured storm lies in the interval; null where there is none.",
        predicted=_PREDICTED,
        measured=closed("The mean, and each storm.", value=_TIME, storms=many(_TIME)),
        error={**NUMBER, "description": "of the prediction, as a part of what was measured"},
        inside=maybe(_YES),
    )
    return {
        "$schema": _DIALECT,
        "title": "contend whatif --verify --json",
        **closed(
            "What came of a prediction.",
            schema_version={"const": SCHEMA_VERSION},
            edits=TEXTS,
            sources={**TEXTS, "description": "storms after the change"},
            compared=_each("By figure; the maximum is told and not judged.", compared),
            inside=maybe(_YES, "of median, p90 and makespan; null where it cannot be said"),
            reason=maybe(TEXT, "why it cannot"),
        ),
    }
