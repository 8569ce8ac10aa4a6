"""A placement study's analysis finds what was planted: effects, what takes CPU time, the knee, what others said."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.document import Analysis
from contend.report.html import render_html
from contend.report.terminal import render
from contend.stats.simultaneous import simultaneous
from contend.studies.placement import effects as placement_effects
from contend.studies.placement.result import BASELINE, MORE, Conditions, Effect, Placements, Route
from support import made_placement as truth
from support.intervals import holds
from support.made_placement import MadePlacement


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadePlacement:
    return MadePlacement(tmp_path_factory.mktemp("placement"))


@pytest.fixture(scope="module")
def analysis(made: MadePlacement) -> Analysis:
    return made.analyse()


@pytest.fixture(scope="module")
def found(analysis: Analysis) -> Placements:
    assert analysis.result is not None
    return analysis.result


def effect(found: Placements, kind: str, metric: str = "throughput", encapsulation: str = "none") -> Effect:
    (only,) = [
        e
        for e in found.effects
        if (e.kind, e.metric, e.encapsulation, e.conditions) == (kind, metric, encapsulation, found.first)
    ]
    return only


def test_main_effects_and_interaction_are_those_planted(found: Placements) -> None:
    routed = math.sqrt(truth.SUBNET * truth.SUBNET_TWO)
    host = truth.HOST * math.sqrt(truth.SUBNET_TWO / truth.SUBNET)
    planted = {"subnet": routed, "host": host, "interaction": truth.SUBNET_TWO / truth.SUBNET}
    for kind, value in planted.items():
        ratio = effect(found, kind).ratio
        assert holds(ratio, value), kind
        assert ratio.verdict == "lower", kind
        assert ratio.value == pytest.approx(value, abs=0.01)
    vxlan = effect(found, "encapsulation", encapsulation="vxlan").ratio
    assert holds(vxlan, truth.VXLAN) and vxlan.verdict == "lower"
    # Planted as a product, so vxlan has the same interaction as a veth.
    assert effect(found, "interaction", encapsulation="vxlan").ratio.excludes(1.0)


def test_no_interaction_is_told_where_none_was_planted(found: Placements) -> None:
    ratio = effect(found, "interaction", "latency_p50").ratio
    assert holds(ratio, 1) and ratio.verdict == "unaffected"


def test_cpu_time_is_told_apart_in_seconds(found: Placements) -> None:
    planted = {
        "routing, same host": truth.ROUTING,
        "routing, different host": truth.ROUTING,
        "routing (vxlan), different host": truth.ROUTING,
        "another host": truth.OTHER_HOST,
        "vxlan": truth.ENCAPSULATING,
    }
    # The made days get slower by up to 30 %, so seconds do too; the median block is half-way.
    of = {a.what: a.seconds for a in found.added if a.conditions == found.first}
    assert set(of) == set(planted)
    for what, value in planted.items():
        assert of[what].verdict == "higher", what
        assert of[what].value == pytest.approx(1.14 * value, rel=0.15), what


def test_the_knee_is_where_more_pairs_add_nothing(found: Placements) -> None:
    assert len(found.aggregates) == 6
    for of in found.aggregates:
        assert list(of.levels) == [1, 2, 4]
        assert of.knee == 2, of.route
        assert of.steps[2].low > 1.7 and of.steps[4].high < MORE
        assert holds(of.over_one[4], truth.PAIRS[4])


def test_what_others_said_is_judged_and_what_needs_hosts_is_not(found: Placements) -> None:
    verdicts = {claim.id: claim.verdict for claim in found.claims}
    assert verdicts == {
        "subnet-on-one-host": "confirmed",
        "subnet-on-two-hosts": "confirmed",
        "ten-times-on-one-host": "cannot tell",
        "sublinear": "confirmed",
        "one-cannot-fill-a-card": "cannot tell",
    }
    said = {claim.id: "; ".join(claim.answers) for claim in found.claims}
    assert "their -9 % is within this interval" in said["subnet-on-one-host"]
    assert "their -12 % is within this interval" in said["subnet-on-two-hosts"]
    assert "namespaces of one machine" in said["ten-times-on-one-host"]


def test_a_loss_that_is_not_there_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "SUBNET", 1.0)
    analysis = MadePlacement(tmp_path).analyse()
    assert analysis.result is not None
    verdicts = {claim.id: claim.verdict for claim in analysis.result.claims}
    assert (verdicts["subnet-on-one-host"], verdicts["subnet-on-two-hosts"]) == ("refuted", "confirmed")


def test_findings_come_with_advice_and_only_beyond_the_interval(analysis: Analysis) -> None:
    kinds = [finding.kind for finding in analysis.findings]
    assert set(kinds) >= {"placement-subnet", "placement-host", "placement-encapsulation"}
    for finding in analysis.findings:
        assert finding.advice and finding.verify.startswith("contend run network-placement --set ")
        assert finding.estimate.verdict in ("lower", "higher")
    subnet = next(f for f in analysis.findings if f.kind == "placement-subnet")
    assert "one subnet" in subnet.advice
    assert "-9" in subnet.sentence or "-10" in subnet.sentence


def test_too_few_blocks_find_nothing_and_say_so(tmp_path: Path) -> None:
    analysis = MadePlacement(tmp_path, blocks=3).analyse()
    assert analysis.findings == ()
    assert analysis.answer == "No answer yet: too few complete blocks for an interval."
    assert analysis.result is not None
    assert {claim.verdict for claim in analysis.result.claims} == {"cannot tell"}
    assert ("too few blocks for an interval",) in {claim.answers for claim in analysis.result.claims}
    jsonschema.validate(json.loads(json.dumps(analysis.to_json())), analysis_schema())


def test_a_run_that_was_interrupted_in_its_first_block_tells_what_it_has(tmp_path: Path) -> None:
    """Of another host there is one number of pairs yet, which makes no aggregate."""
    made = MadePlacement(tmp_path, blocks=1)
    kept = {
        "same host, same subnet | TCP, 1400 B, 1 pair",
        "same host, different subnet | TCP, 1400 B, 1 pair",
        "same host, same subnet | TCP, 1400 B, 2 pairs",
        "different host, same subnet | TCP, 1400 B, 2 pairs",
    }
    file = made.run.path / "trials.ndjson"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(line for line in lines if json.loads(line)["cell"] in kept), encoding="utf-8")
    placements = made.analyse().result
    assert [(of.route, list(of.levels)) for of in placements.aggregates] == [(BASELINE, [1, 2])]
    assert {claim.verdict for claim in placements.claims} == {"cannot tell"}
    assert "The aggregate by number of pairs" in render(made.report(), width=100)
    assert "placement-pairs" in render_html(made.report())


def test_every_control_agrees_with_its_baseline(analysis: Analysis) -> None:
    primary = [c for c in analysis.controls if c.metric.primary]
    assert len(primary) == 4
    assert not any(c.alarm for c in primary)


def test_document_page_and_terminal_say_what_the_hosts_are(made: MadePlacement, analysis: Analysis) -> None:
    jsonschema.validate(json.loads(json.dumps(analysis.to_json())), analysis_schema())
    report = made.report()
    text, page = render(report, width=100), render_html(report)
    for told in (" ".join(text.split()), page):
        assert "namespaces of one machine" in told
        assert "2 hosts, 2 subnets, vxlan" in told
    assert page.count('<svg class="placement"') == 6
    assert all(row["factors"]["ends"] == "namespaces of one machine" for row in report.rows)


def test_every_exported_row_tells_its_place_and_what_the_hosts_are(
    made: MadePlacement, tmp_path: Path
) -> None:
    import csv

    from contend.report.export import export

    export(made.report(), "csv", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["ends"] for row in rows} == {"namespaces of one machine"}
    of = {
        tuple(row[k] for k in ("host", "subnet", "encapsulation", "protocol", "message", "pairs"))
        for row in rows
    }
    assert ("different", "different", "vxlan", "udp", "1400", "1") in of
    assert len(of) == 6 * 4


def test_drops_of_datagrams_are_told(made: MadePlacement) -> None:
    from contend.studies.placement.words import headers, rows

    found = made.analyse().result
    assert found is not None
    udp = next(c for c in found.conditions if c.protocol == "udp")
    assert headers(found, udp)[-1] == "dropped"
    assert {row[-1] for row in rows(found, udp)} == {"2 %"}


def test_effects_that_lack_a_block_still_stand_in_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are drawn together for all effects: what is at one place of two arms must be of one block."""
    seen: list[dict[object, tuple[list[float], list[float]]]] = []
    known = simultaneous
    monkeypatch.setattr(
        placement_effects, "simultaneous", lambda arms, **more: seen.append(arms) or known(arms, **more)
    )
    whole = {block: 100.0 + block for block in range(9)}
    torn = {block: value for block, value in whole.items() if block != 2}
    by = {
        (Conditions("tcp", 1400, pairs), place, "throughput"): torn if pairs == 1 else whole
        for far in [Route("different", "same", "none")]
        for pairs in (1, 2)
        for place in (BASELINE, far)
    }
    effects = list(placement_effects._effects(by, 0.95, 0.03, 1))
    assert [e.ratio.n for e in effects if e.kind == "host"] == [8, 9]
    (arms,) = seen
    for baseline, treatment in arms.values():
        assert len(baseline) == len(treatment) == 9
        assert baseline[3] == pytest.approx(103.0), "block 3 is the fourth everywhere"
