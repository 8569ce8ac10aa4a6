"""JSON Schema of `contend report TRACE --json`. Every object is closed, as in `contend.analysis.schema`."""

from __future__ import annotations

from dataclasses import fields

from contend.report.schema_parts import COUNT, TEXT, TEXTS, Schema, closed, many
from contend.store.trace_summary import (
    SCHEMA_VERSION,
    Blocked,
    Collections,
    Holder,
    Lock,
    Process,
    Repeated,
    Span,
    SystemCall,
)

_TIME: Schema = {**COUNT, "description": "ns"}
_RANKED_BY: dict[type[object], str] = {
    Span: "All spans of one name, over all processes; ranked by self time.",
    Lock: "All locks of one name, site and kind; by the time waited, conditions and queues after all others.",
    Holder: "Who held the lock when a wait began: the innermost span, else the track; 'unknown' where nobody is known.",
    Process: "A file of the trace; a process that recorded again or executed another program has several.",
    Collections: "Pauses for garbage collection, by generation.",
    Blocked: "What kept an event loop or hub from all others for longer than the limit; ranked by its time.",
    SystemCall: "System calls of 50 µs and more in which threads waited, by name; ranked by time. They are in the spans'"
    " own times.",
    Repeated: "Calls of one name, `least` or more inside one span: those that leave the process first, then by time.",
}
_ABOUT = {
    "total_ns": "from begin to end; of recursion only the outermost",
    "self_ns": "neither in spans inside it, nor waiting for a lock, nor suspended",
    "wait_ns": "waiting for a lock, which others held",
    "suspended_ns": "open while another ran on its thread (greenlets, tasks)",
    "cpu_ns": "of its threads, where it was recorded; else 0",
    "run_delay_ns": "ready to run and without a CPU, where it was recorded; else 0",
    "unfinished": "the end is missing: it was ended with what is around it, or with the file",
    "remote": "left the process: of kind remote, or a message was sent in it",
    "parents": "spans around that hold so many",
    "calls": "inside those",
    "most": "in one of them",
    "instances": "how many locks they are",
    "holds": "times it was taken",
    "closed": "1: the process ended the recording itself",
    "readings": "of both clocks; 0: its ticks are CLOCK_MONOTONIC",
    "off_line_ns": "how far these readings lie off a straight line at most, ns",
    "collected": "objects that were found to be garbage",
    "loop": "'blocked event loop' or 'blocked hub'",
    "site": "file:line, empty where it is not known",
    "ready": "the most that were known to be ready behind it; 0 also where that is not known",
    "given_up": "waits that ended without it",
}


def trace_schema() -> Schema:
    """Schema of one document."""
    remote = closed(
        "Calls that left their process; the most frequent first.",
        name=TEXT,
        calls=COUNT,
        total_ns=_TIME,
        max_ns=_TIME,
    )
    counts: Schema = {
        "type": "object",
        "description": "events, processes, and what could not be told, by kind",
        "properties": {"passed_over": TEXTS},
        "additionalProperties": COUNT,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend report TRACE --json",
        **closed(
            "Where the time of a traced program went. Times are integers in ns.",
            schema_version={"const": SCHEMA_VERSION},
            source=TEXT,
            length_ns={**COUNT, "description": "from the first event to the last, ns"},
            counts=counts,
            notes={**TEXTS, "description": "what a reader must know of the trace, a sentence each"},
            processes=many(_row(Process)),
            spans=many(_row(Span)),
            locks=many(_row(Lock, holders=many(_row(Holder)))),
            remote=many(remote),
            interpreter=closed(
                "What the interpreter itself kept waiting.",
                gil={"anyOf": [_row(Lock, holders=many(_row(Holder))), {"type": "null"}]},
                collections=many(_row(Collections)),
                blocked=many(_row(Blocked)),
            ),
            system_calls=many(_row(SystemCall)),
            repeated=closed(
                "Calls that are made again and again inside one span.",
                least={**COUNT, "description": "so many are a repetition"},
                rows=many(_row(Repeated)),
            ),
        ),
    }


def _row(
    of: type[Span | Lock | Holder | Repeated | Process | Collections | Blocked | SystemCall], **own: Schema
) -> Schema:
    """Schema of a dataclass of names and counts; `own` for its other fields."""
    found: dict[str, Schema] = {}
    for field in fields(of):
        kind = TEXT if field.type == "str" else COUNT
        about = {"description": _ABOUT[field.name]} if field.name in _ABOUT else {}
        found[field.name] = own.get(field.name) or {**kind, **about}
    return closed(_RANKED_BY[of], (), **found)
