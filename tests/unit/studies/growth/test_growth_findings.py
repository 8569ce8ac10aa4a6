"""What is said of calls whose work grows, of trends whose truth is a straight line."""

from __future__ import annotations

import math

import pytest

from contend.stats.estimate import Estimate
from contend.stats.trend import Trend, Visit, trend
from contend.studies.growth.findings import findings
from contend.studies.growth.result import Call, Grown, Growths

NEVER = Estimate(math.inf, math.inf, math.inf, "entities", 10, 0.95, "none", "equal")


def line(base: float, each: float, unit: str = "s") -> Trend:
    """base + each * population, all but exactly: of 0 to 200 entities, twice up and down."""
    populations = (0, 50, 100, 150, 200)
    visits = [
        Visit(n, (base + each * n) * (1 + 1e-5 * (at % 3 - 1)), at_s=float(at), series=series)
        for series in ("first", "second")
        for at, n in enumerate((*populations, *reversed(populations)))
    ]
    return trend(visits, unit)


def call(
    name: str, latency: Trend, counted: dict[str, Trend] | None = None, size: Trend | None = None
) -> Call:
    return Call("network", name, latency, NEVER, counted or {}, size, 0.99, {})


def told(*calls: Call) -> Growths:
    grown = Grown("network", 2, 200, "", {}, "", calls, None, {}, 0.99)
    return Growths(1.0, (grown,), {}, {})


def test_a_statement_for_each_entity_is_an_n_plus_one() -> None:
    of = call(
        "list",
        line(0.02, 0.001),
        {"SQL": line(4, 1, "count"), "messages": line(3, 0, "count"), "reads": line(9, 0.6, "count")},
        line(100, 30, "B"),
    )
    (found,) = findings(told(of), "contend run growth.yaml")
    assert (found.id, found.kind, found.subject, found.resource) == (
        "F1",
        "n-plus-one",
        "list network",
        "control plane",
    )
    assert found.sentence.startswith(
        "list network takes 100 ms [100, 100] more for every 100 entities (linear; × 11 at 200)"
    )
    assert found.sentence.endswith(", with 1 SQL and 0.6 reads for each of them: an N+1.")
    assert found.share is None and found.estimate is of.together
    assert found.estimate.level == 0.99
    where = "RUN/outputs/*/growth.json, visits of network, calls.list"
    assert [(e.what, pytest.approx(e.value, rel=1e-3), e.unit, e.where) for e in found.evidence] == [
        ("a typical call with no entities", 0.02, "s", where),
        ("with 200", 0.22, "s", where),
        ("more in the answer for every 100 entities", 3000, "B", where),
        ("more for every 100 entities", 100, "SQL", where),
        ("more for every 100 entities", 60, "reads", where),
    ]
    assert found.advice.startswith("Load what each entity needs with one statement for all of them")
    assert found.verify == "contend run growth.yaml --set kinds=network"


def test_what_grows_less_than_once_for_two_entities_is_growing_work() -> None:
    of = call("show", line(0.01, 0.0001), {"SQL": line(4, 0.4, "count")})
    (found,) = findings(told(of), "contend run")
    assert found.kind == "growing-work"
    assert found.sentence.endswith(", and so does what it asks for (SQL).")
    assert found.advice.startswith("One entity should not cost more because there are others")
    assert [e.what for e in found.evidence][2:] == ["more for every 100 entities"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("list", "Its answer grows too: have clients ask for pages"),
        ("page", "A page of the same size should not depend on how many there are"),
        ("create", "One entity should not cost more because there are others"),
    ],
)
def test_what_to_do_depends_on_the_call(name: str, advice: str) -> None:
    (found,) = findings(told(call(name, line(0.01, 0.0001))), "contend run")
    assert found.kind == "growing-work" and found.advice.startswith(advice)
    assert found.sentence.endswith("at 200).")
    assert [e.what for e in found.evidence] == ["a typical call with no entities", "with 200"]


def test_counts_that_stay_are_said_to() -> None:
    counted = {"SQL": line(4, 0, "count"), "messages": line(2, 0, "count")}
    (found,) = findings(told(call("show", line(0.01, 0.0001), counted, line(500, 0, "B"))), "contend run")
    assert found.sentence.endswith(", with as many SQL and messages as ever: what it asks for takes longer.")
    assert len(found.evidence) == 2, "an answer as long as ever is no evidence"


def test_the_largest_growth_leads_and_what_does_not_grow_is_not_told() -> None:
    calls = (
        call("create", line(0.01, 0.0001)),
        call("show", line(0.01, 0.001)),
        call("delete", line(0.01, 0.0)),
    )
    found = findings(told(*calls), "contend run")
    assert [(f.id, f.subject) for f in found] == [("F1", "show network"), ("F2", "create network")]
