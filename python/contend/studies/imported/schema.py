"""The part of the analysis document that imported runs have."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, FACTORS, TEXT, TEXTS, Schema, closed, many, ref


def imported() -> Schema:
    return closed(
        "What another tool measured. Absent of contend's own runs.",
        tool=TEXT,
        version=TEXT,
        files=COUNT,
        one_run={
            **TEXT,
            "description": "what one run of that tool is, and why what lies inside it is no replicate",
        },
        settings=FACTORS,
        levels=many(
            closed(
                "A cell's own level of one metric, one value a run.",
                cell=TEXT,
                factors=FACTORS,
                metric=ref("metric"),
                level=ref("level"),
                samples={**many(COUNT), "description": "requests inside one run: the least and the most"},
            )
        ),
        refused={**TEXTS, "description": "why there is no ratio between cells"},
        notes=TEXTS,
    )
