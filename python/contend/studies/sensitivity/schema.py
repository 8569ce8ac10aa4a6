"""JSON Schema of what a forecast says: `sensitivity` of the analysis document, and what `contend advise --json` prints."""

from __future__ import annotations

from contend.report.definitions import DEFINITIONS
from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref

_FLAG: Schema = {"type": "boolean"}
_PAIRS: Schema = {"type": "object", "additionalProperties": NUMBER}


def sensitivity() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    errors = closed(
        "|predicted - measured| over the held-out pairs.",
        median_points={**NUMBER, "description": "of slowdowns, in percentage points"},
        worst_points=NUMBER,
        median_log=NUMBER,
        worst_log=NUMBER,
    )
    pair = closed(
        "One victim beside one neighbour.",
        victim=TEXT,
        neighbour=TEXT,
        cell=TEXT,
        predicted=ref("estimate"),
        baseline=maybe(NUMBER, "what a row and a column effect say"),
        measured=maybe(ref("estimate")),
        held_out={**_FLAG, "description": "nothing was fitted to it"},
        inside=maybe(_FLAG, "whether the measured slowdown is in the predicted interval"),
        extrapolation={**_FLAG, "description": "the neighbour presses harder than any injector did"},
        resource={**TEXT, "description": "the one that slows most; empty where none does"},
        parts={**_PAIRS, "description": "by resource, what it alone would slow, as a ratio"},
    )
    return closed(
        "Curves, pressures, and the table of pairs that they predict.",
        workloads=TEXTS,
        resources=TEXTS,
        intensities=many(NUMBER),
        placement=TEXT,
        refused={**TEXT, "description": "why this is a description; empty for a forecast"},
        covers={**TEXT, "description": "what the predicted intervals hold"},
        errors=closed("Of both.", forecast=maybe(errors), baseline=maybe(errors)),
        advantage={**ref("estimate"), "description": "of the forecast's |log error| over the baseline's"},
        pairs=many(pair),
        curves=many(
            closed("By intensity.", workload=TEXT, resource=TEXT, slowdown=many(ref("estimate"))),
        ),
        scale=many(closed("A probe under its own injector.", resource=TEXT, slowdown=many(ref("estimate")))),
        pressure=many(
            closed(
                "How hard a workload presses.",
                workload=TEXT,
                resource=TEXT,
                intensity=maybe(
                    NUMBER, "% of the injector's that slows the probe as much; above 100 beyond it"
                ),
            )
        ),
        notes=TEXTS,
    )


def advice_schema() -> Schema:
    """The schema of `contend advise --json`."""
    groups = many(TEXTS)
    placement = closed(
        "Workloads on hosts, and mean slowdowns of a workload.",
        hosts=COUNT,
        aim={"enum": ["total", "worst"]},
        assignment=groups,
        exact={**_FLAG, "description": "every assignment was looked at"},
        more_than_pairs={**_FLAG, "description": "some host has more than two: pairs' slowdowns multiplied"},
        predicted=closed("By the forecast.", mean=NUMBER, worst=NUMBER, random=NUMBER),
        measured=closed(
            "By the measured pairs; null where some are missing.",
            mean=maybe(NUMBER),
            random=maybe(NUMBER),
            best=maybe(NUMBER, "of the assignment that they would choose"),
            best_assignment=maybe(groups),
        ),
    )
    run = closed(
        "One run.",
        run=TEXT,
        study=TEXT,
        refused={
            **TEXT,
            "description": "why there is no advice on placement; empty where there is, and of other studies",
        },
        findings=many(ref("finding")),
        placement=maybe(placement, "of a forecast that was not refused"),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend advice",
        **closed("What to do, by run.", schema_version={"const": 1}, runs=many(run)),
        "$defs": DEFINITIONS,
    }
