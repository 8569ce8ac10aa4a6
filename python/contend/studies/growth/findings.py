"""Calls whose work grows with the population, as findings: what grows, what that looks like, what to do."""

from __future__ import annotations

import shlex

from contend.advice.finding import Evidence, Finding
from contend.stats.trend import PER
from contend.studies.growth.result import Call, Growths

# Of the entities there are, each costs a call so many statements or more: the sign of a query for each of them.
EACH = 0.5


def findings(growths: Growths, repeat: str) -> tuple[Finding, ...]:
    """A finding for each flagged call, the largest growth first. repeat: the command line that repeats the run."""
    return tuple(_finding(f"F{number}", call, repeat) for number, call in enumerate(growths.flagged, start=1))


def per_entity(call: Call) -> dict[str, float]:
    """Counts that grow by EACH or more with every entity, by what is counted: an N+1."""
    return {
        what: of.slope.value / PER for what, of in call.growing_counts.items() if of.slope.low / PER >= EACH
    }


def _finding(id_: str, call: Call, repeat: str) -> Finding:
    latency, slope = call.latency, call.together
    each = per_entity(call)
    grows = f"{call.title} takes {1e3 * slope.value:.3g} ms [{1e3 * slope.low:.3g}, {1e3 * slope.high:.3g}] more for every"
    sentence = f"{grows} {PER:g} entities ({latency.shape}; × {latency.growth:.2g} at {latency.largest:.0f})"
    if each:
        counts = " and ".join(f"{number:.2g} {what}" for what, number in each.items())
        sentence += f", with {counts} for each of them: an N+1."
    elif call.counted and not call.growing_counts:
        sentence += f", with as many {' and '.join(call.counted)} as ever: what it asks for takes longer."
    elif call.growing_counts:
        sentence += f", and so does what it asks for ({', '.join(call.growing_counts)})."
    else:
        sentence += "."
    return Finding(
        id=id_,
        kind="n-plus-one" if each else "growing-work",
        subject=call.title,
        resource="control plane",
        sentence=sentence,
        share=None,
        estimate=slope,
        evidence=tuple(_evidence(call)),
        advice=_advice(call, bool(each)),
        verify=f"{repeat} --set kinds={shlex.quote(call.kind)}",
    )


def _evidence(call: Call) -> list[Evidence]:
    latency = call.latency
    where = f"RUN/outputs/*/growth.json, visits of {call.kind}, calls.{call.name}"
    evidence = [
        Evidence("a typical call with no entities", max(0.0, latency.at(0).value), "s", where),
        Evidence(f"with {latency.largest:.0f}", latency.at(latency.largest).value, "s", where),
    ]
    if call.size is not None and call.size.slope.low > 0:
        evidence.append(
            Evidence(f"more in the answer for every {PER:g} entities", call.size.slope.value, "B", where)
        )
    evidence += [
        Evidence(f"more for every {PER:g} entities", of.slope.value, what, where)
        for what, of in call.growing_counts.items()
    ]
    return evidence


def _advice(call: Call, each: bool) -> str:
    if each:
        return (
            "Load what each entity needs with one statement for all of them (a join, or a batch by their ids);"
            " contend trace on the service names the statement."
        )
    if call.name == "list":
        return "Its answer grows too: have clients ask for pages (limit, marker) and for the fields that they use."
    if call.name == "page":
        return (
            "A page of the same size should not depend on how many there are: look for an index that the order or the"
            " filter lacks, or for rows that are read and thrown away; contend trace on the service names the statement."
        )
    return (
        "One entity should not cost more because there are others: look for a check over all of them, or a missing index;"
        " contend trace on the service names the statement."
    )
