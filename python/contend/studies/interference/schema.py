"""JSON Schema of applications that were measured in numbers."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, NUMBER, TEXT, Schema, closed, many, maybe, ref


def crowds() -> Schema:
    """A list, one an application."""
    return many(_crowd())


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
