"""What is advised of platforms, and what is said of practices, for effects and decompositions that are written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from contend.document import CellResult, Level, MetricInfo
from contend.probes.observed import Observations
from contend.stats.estimate import Estimate, verdict_of
from contend.stats.platform_effects import Effect, Kind
from contend.stats.platform_size import Decomposition, Setting, SizeOverhead
from contend.store.cells import Application, values_of
from contend.studies.overhead import practices
from contend.studies.overhead.findings import findings
from contend.studies.overhead.host_findings import host_findings
from contend.studies.overhead.network_findings import network_findings
from contend.studies.overhead.practices import judge
from contend.studies.overhead.result import Overheads
from contend.studies.overhead.variant_findings import variant_findings
from contend.studies.overhead.variants import Variant

HOST = 16
METRIC = MetricInfo("wall", "s", "lower", "", True)
REPEAT = "contend run mine.yaml"
VARIANTS = {
    of.name: of
    for of in (
        Variant("vanilla", "vanilla"),
        Variant("vanilla 10ms", "vanilla", 10_000),
        Variant("vanilla 50ms", "vanilla", 50_000),
        Variant("vanilla burst 5ms", "vanilla", burst_us=5_000),
        Variant("pinned", "pinned"),
        Variant("pinned spread", "pinned", placement="spread"),
    )
}


def ratio(value: float, low: float, high: float, *warnings: str) -> Estimate:
    return Estimate(value, low, high, "ratio", 15, 0.95, "HL", verdict_of(low, high), warnings)


HIGHER, MUCH_HIGHER, LOWER = ratio(1.2, 1.1, 1.3), ratio(1.9, 1.8, 2.0), ratio(0.8, 0.7, 0.9)
SAME, UNDECIDED = ratio(1.0, 0.98, 1.02), ratio(1.0, 0.8, 1.3)


def at(
    size: float, provisioning: str = "vanilla", platform: str = "container", host: float = HOST
) -> Setting:
    return Setting("app", platform, provisioning, size, host)


def effect(kind: Kind, of: Estimate, over: Setting, under: Setting) -> Effect:
    return Effect(kind, (over,), (under,), of)


def parts(
    *pso: tuple[float, Estimate],
    pto: Estimate = SAME,
    provisioning: str = "vanilla",
    host: float = HOST,
) -> Decomposition:
    told = tuple(SizeOverhead(at(size, provisioning, host=host), of) for size, of in pso)
    whole = at(host, provisioning, host=host)
    return Decomposition("app", "container", provisioning, host, "claim", whole, pto, None, told)


def overheads(*effects: Effect, of: Sequence[Decomposition] = (), **more: Any) -> Overheads:
    known = {
        "applications": {"app": Application("app"), "b[x=1]": Application("b", {"x": 1})},
        "variants": VARIANTS,
    }
    return replace(Overheads(HOST, tuple(of), effects, (), (), {}, ()), **known, **more)  # type: ignore[arg-type]


def cell(
    setting: Setting,
    value: float = 2.0,
    values: Sequence[float] = (1.0,),
    metric: MetricInfo = METRIC,
    **seen: float,
) -> CellResult:
    """On a platform beside its baseline. seen: in its trials; alone nothing of that was."""
    factors = {
        "victim": setting.application, "platform": setting.platform, "provisioning": setting.provisioning,
        "size": f"{setting.size:g} CPUs", "cpus": f"{setting.size:g}",
    }  # fmt: skip
    if setting.host_cpus != HOST:
        factors |= {"host": f"{setting.host_cpus:g}", "host_by": "offline"}
    estimate = ratio(value, value * 0.95, value * 1.05)
    level = Level(estimate, tuple(values), tuple(range(len(values))), ())
    now = Observations({name: (x, "s") for name, x in {"wall": 1.0, **seen}.items()})
    before = Observations({name: (x, "s") for name, x in {"wall": 1.0, **dict.fromkeys(seen, 0.0)}.items()})
    return CellResult("c", factors, metric, level, level, estimate, now, before, values=values_of(factors))


# Practices


RULE = {
    "id": "x",
    "claim": "a  claim\n of others",
    "of": {"platform": "container", "provisioning": "vanilla"},
}
HELPS = {"confirmed_by": ["higher"], "refuted_by": ["lower", "negligible"]}


def verdict(
    monkeypatch: pytest.MonkeyPatch,
    rule: Mapping[str, object],
    found: Overheads,
    cells: Sequence[CellResult] = (cell(at(1)),),
    dominant: str = "cpu",
) -> practices.Practice:
    monkeypatch.setattr(practices.yaml, "safe_load", lambda _: [{**RULE, **rule}])
    (practice,) = judge(found, cells, {"app": dominant})
    assert (practice.id, practice.claim) == ("x", "a claim of others")
    return practice


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ([HIGHER], "confirmed"),
        ([LOWER], "refuted"),
        ([SAME], "refuted"),
        ([UNDECIDED], "cannot tell"),
        (
            [HIGHER, SAME],
            "confirmed",
        ),  # where it holds at one size, that it matters little elsewhere is no objection
        ([HIGHER, LOWER], "cannot tell"),
        ([HIGHER, UNDECIDED], "confirmed"),
        ([LOWER, SAME, UNDECIDED], "refuted"),
    ],
)
def test_pinning_is_judged_by_all_sizes_of_the_whole_host(
    monkeypatch: pytest.MonkeyPatch, told: list[Estimate], says: str
) -> None:
    effects = [effect("pinning", of, at(n), at(n, "pinned")) for n, of in enumerate(told, 1)]
    others = [
        effect("pinning", LOWER if says == "confirmed" else HIGHER, at(2, host=4), at(2, "pinned", host=4)),
        effect("burst", HIGHER, at(2), at(2, "vanilla burst 5ms")),
        effect("pinning", HIGHER, at(2, platform="vm"), at(2, "pinned", platform="vm")),
    ]
    practice = verdict(monkeypatch, {"figure": "pinning", **HELPS}, overheads(*effects, *others))
    assert practice.verdict == says
    (words,) = practice.answers
    assert words.startswith("app: ") and words.count(" at ") == len(told)


@pytest.mark.parametrize(
    ("smallest", "says"), [(HIGHER, "confirmed"), (SAME, "refuted"), (UNDECIDED, "cannot tell")]
)
def test_small_containers_are_judged_by_the_smallest(
    monkeypatch: pytest.MonkeyPatch, smallest: Estimate, says: str
) -> None:
    of = [
        parts((1, smallest), (4, LOWER)),
        parts((1, LOWER), provisioning="pinned"),
        parts((1, LOWER), host=4),
        parts(),
    ]
    practice = verdict(monkeypatch, {"figure": "size", **HELPS}, overheads(of=of))
    assert practice.verdict == says
    assert len(practice.answers) == 1 and "at 1 CPU" in practice.answers[0]


def test_two_platforms_are_compared_at_the_same_size_without_their_baselines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise = [1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.003]
    vm, container = at(2, platform="vm"), at(2)
    slow, fast = [1.5 * x for x in noise], list(noise)
    rule = {
        "figure": "against",
        "against": "vm",
        "confirmed_by": ["lower"],
        "refuted_by": ["higher", "negligible"],
    }
    alone = [cell(at(4), values=slow)]
    assert verdict(monkeypatch, rule, overheads(), alone).answers == ("nothing here tells",)

    def says(ours: list[float], theirs: list[float], metric: MetricInfo = METRIC) -> str:
        cells = [cell(container, values=ours, metric=metric), cell(vm, values=theirs, metric=metric), *alone]
        practice = verdict(monkeypatch, rule, overheads(), cells)
        assert "2 CPUs" in practice.answers[0]
        return practice.verdict

    assert says(fast, slow) == "confirmed"
    assert says(slow, fast) == "refuted"
    assert says(fast, fast) == "refuted"
    assert says(slow, fast, replace(METRIC, better="higher")) == "confirmed"


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        # The share from which on the cost is small is claimed to lie between 0.25 and 0.5 of 16 CPUs.
        ([(4, HIGHER), (8, SAME)], "confirmed"),
        ([(8, HIGHER), (12, SAME)], "refuted"),
        ([(2, HIGHER), (3, SAME)], "refuted"),
        ([(2, HIGHER), (12, SAME)], "cannot tell"),
        ([(4, UNDECIDED), (8, SAME)], "cannot tell"),
        ([(4, HIGHER), (8, UNDECIDED)], "cannot tell"),
    ],
)
def test_where_a_cost_fades_is_held_against_the_shares_claimed(
    monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[float, Estimate]], says: str
) -> None:
    rule = {"figure": "fades", "between": {"cpu": [0.25, 0.5]}}
    assert verdict(monkeypatch, rule, overheads(of=[parts(*sizes)])).verdict == says
    other = overheads(of=[parts(*sizes, host=8)]) if all(size <= 8 for size, _ in sizes) else overheads()
    assert verdict(monkeypatch, rule, other).answers == ("nothing here tells",)
    assert verdict(monkeypatch, rule, overheads(of=[parts(*sizes)]), dominant="disk").answers == (
        "nothing here tells",
    )
    named = {"figure": "fades", "between": {"app": [0.25, 0.5], "cpu": [0.9, 1.0]}}
    assert verdict(monkeypatch, named, overheads(of=[parts(*sizes)])).verdict == says, "its name goes before"


def test_a_practice_is_about_those_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    found = overheads(effect("pinning", HIGHER, at(2), at(2, "pinned")))

    def says(dominant: str = "cpu", **more: object) -> tuple[str, tuple[str, ...]]:
        practice = verdict(monkeypatch, {"figure": "pinning", **HELPS, **more}, found, dominant=dominant)
        return practice.verdict, practice.answers

    assert says(dominant="disk")[0] == "confirmed", "it names nobody"
    assert says(applications=["app"])[0] == "confirmed"
    assert says(applications=["other"]) == ("cannot tell", ("nothing here tells",))
    assert says(not_applications=["app"]) == ("cannot tell", ("nothing here tells",))
    assert says(not_applications=["other"])[0] == "confirmed"


@pytest.mark.parametrize(
    ("bound", "says"), [("cpu", "confirmed"), ("disk", "confirmed"), ("memory", "cannot tell")]
)
def test_a_practice_is_about_what_an_application_is_bound_by(
    monkeypatch: pytest.MonkeyPatch, bound: str, says: str
) -> None:
    found = overheads(effect("pinning", HIGHER, at(2), at(2, "pinned")))
    rule = {"figure": "pinning", **HELPS, "dominant": ["cpu", "disk"]}
    practice = verdict(monkeypatch, rule, found, dominant=bound)
    assert practice.verdict == says
    if says == "cannot tell":
        assert practice.answers == ("no application here is bound by cpu or disk",)


def test_what_was_emulated_or_not_measured_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = overheads(effect("pinning", HIGHER, at(2), at(2, "pinned")), emulated=("container",))
    rule = {"figure": "pinning", **HELPS}
    assert verdict(monkeypatch, rule, found).answers == ("container is emulated here",)
    absent = verdict(monkeypatch, rule, replace(found, emulated=()), [cell(at(1, platform="vm"))])
    assert (absent.verdict, absent.answers) == ("cannot tell", ("container was not measured",))


# Findings


def test_pinning_that_helps_is_advised_and_pinning_that_costs_is_not() -> None:
    found = overheads(
        effect("pinning", HIGHER, at(1), at(1, "pinned")),
        effect("pinning", MUCH_HIGHER, at(2), at(2, "pinned")),
        effect("pinning", SAME, at(4), at(4, "pinned")),
        effect("pinning", LOWER, at(8), at(8, "pinned")),
        effect("pinning", MUCH_HIGHER, at(2, host=4), at(2, "pinned", host=4)),
    )
    first, second = findings(found, [cell(at(2), throttled=0.5)], REPEAT)
    assert (first.id, first.kind, first.subject, first.estimate) == ("F1", "pin", "app", MUCH_HIGHER)
    assert first.resource == "throttling" and first.share == pytest.approx(1.0)
    assert "under the quota of 2 CPUs" in first.sentence
    assert first.verify == f"{REPEAT} --set apps=app --set sizes=[1,2]"
    assert (second.id, second.kind, second.estimate) == ("F2", "do-not-pin", LOWER)
    assert second.verify.endswith("--set sizes=[8]")
    emulated = replace(found, emulated=("container",))
    assert findings(emulated, [cell(at(2))], REPEAT) == ()


def test_of_a_part_of_a_cpu_nothing_explains_and_a_whole_one_is_advised_beside_the_quota() -> None:
    found = overheads(effect("pinning", HIGHER, at(0.5), at(0.5, "pinned")))
    (finding,) = findings(found, [cell(at(0.5), throttled=0.5)], REPEAT)
    assert finding.resource == "unexplained" and finding.share is None
    assert "one CPU beside the quota" in finding.advice
    assert finding.verify.endswith("--set sizes=[0.5]")
    (whole,) = findings(overheads(effect("pinning", HIGHER, at(1), at(1, "pinned"))), [cell(at(1))], REPEAT)
    assert "one CPU beside" not in whole.advice


def test_where_pinning_costs_the_set_is_what_is_explained() -> None:
    """The pinned one waits for its CPUs; the quota of the other is none of that."""
    found = overheads(effect("pinning", LOWER, at(8), at(8, "pinned")))
    cells = [cell(at(8), 1.1, throttled=0.5), cell(at(8, "pinned"), 1.4, wall=1.25, own_psi_cpu=0.2)]
    (finding,) = findings(found, cells, REPEAT)
    assert finding.kind == "do-not-pin" and finding.resource == "run queue"
    assert "; on the set of 8 CPUs it waited for the CPU 200 ms" in finding.sentence
    assert "throttled" not in finding.sentence and "under the quota of" not in finding.sentence
    (part,) = findings(overheads(effect("pinning", LOWER, at(0.5), at(0.5, "pinned"))), cells, REPEAT)
    assert part.resource == "unexplained"


def test_what_the_hypervisor_may_have_taken_stands_beside_causes() -> None:
    found = overheads(effect("pinning", HIGHER, at(2), at(2, "pinned")))
    (finding,) = findings(found, [cell(at(2), throttled=0.3, steal=0.3)], REPEAT)
    assert finding.resource == "throttling"
    assert "; the hypervisor may have taken up to 40 % of the slowdown" in finding.sentence


def test_a_cost_of_being_small_comes_with_the_size_from_which_on_it_is_none() -> None:
    part = parts((1, MUCH_HIGHER), (2, HIGHER), (4, SAME))
    (finding,) = findings(overheads(of=[part]), [cell(at(1))], REPEAT)
    assert (finding.kind, finding.estimate) == ("platform-size", MUCH_HIGHER)
    assert "give it at least 4 CPUs (25 % of this host)" in finding.advice
    assert [e.value for e in finding.evidence] == [1.9, 1.2, 1.0]
    assert finding.verify == f"{REPEAT} --set apps=app --set provisioning=vanilla"
    (never,) = findings(overheads(of=[parts((1, HIGHER), (4, UNDECIDED))]), [cell(at(1))], REPEAT)
    assert never.advice == "give it a set of CPUs in place of a quota, or more of the host"
    quiet = [parts((1, SAME)), parts((1, HIGHER), provisioning="pinned"), parts((1, HIGHER), host=4)]
    assert findings(overheads(of=quiet), [cell(at(1))], REPEAT) == ()


def test_a_platform_s_own_cost_is_of_the_whole_host() -> None:
    part = parts((1, SAME), pto=HIGHER, provisioning="pinned")
    whole = cell(at(HOST, "pinned"), own_psi_cpu=0.3)
    (finding,) = findings(overheads(of=[part]), [cell(at(1, "pinned"), throttled=0.5), whole], REPEAT)
    assert (finding.kind, finding.estimate, finding.resource) == ("platform-type", HIGHER, "run queue")
    assert finding.verify.endswith("--set sizes=16")


def test_where_parts_are_not_known_the_dearest_cell_is_told() -> None:
    refused = replace(
        parts(), pto=replace(ratio(1, 1, 1, "the whole host was not measured"), verdict="refused")
    )
    cells = [
        cell(at(1), 1.5),
        cell(at(2), 3.0, own_psi_cpu=0.5),
        cell(at(4, "pinned"), 9.0),
        cell(at(2, host=4), 9.0),
    ]
    (finding,) = findings(overheads(of=[refused]), cells, REPEAT)
    assert (finding.kind, finding.estimate.value) == ("platform-cost", 3.0)
    assert "the whole host was not measured" in finding.sentence
    assert finding.verify.endswith("--set provisioning=[vanilla,pinned] --set sizes=[2,16]")
    assert findings(overheads(of=[refused]), [cell(at(1), 1.0)], REPEAT) == ()


def test_findings_of_several_applications_are_numbered_by_cost() -> None:
    other = [replace(at(2, p), application="b[x=1]") for p in ("vanilla", "pinned")]
    effects = [
        effect("pinning", HIGHER, at(2), at(2, "pinned")),
        effect("pinning", MUCH_HIGHER, other[0], other[1]),
    ]
    cells = [cell(at(2)), cell(other[0])]
    found = findings(overheads(*effects), cells, REPEAT)
    assert [(f.id, f.subject) for f in found] == [("F1", "b[x=1]"), ("F2", "app")]
    assert found[0].verify == f"{REPEAT} --set sizes=[2]", "a label with parameters is no word for --set"


@pytest.mark.parametrize(
    ("kind", "over", "under", "of", "advice", "varied"),
    [
        ("period", "vanilla 10ms", "vanilla", HIGHER, "the longer period", "periods=[10ms,100ms]"),
        ("period", "vanilla 10ms", "vanilla", LOWER, "the shorter period", "periods=[100ms,10ms]"),
        ("burst", "vanilla", "vanilla burst 5ms", HIGHER, "let it save", "bursts=[0,5ms]"),
        ("burst", "vanilla", "vanilla burst 5ms", LOWER, "no burst", "bursts=[5ms,0]"),
        ("placement", "pinned", "pinned spread", HIGHER, "spread its set", "placements=[packed,spread]"),
        ("placement", "pinned", "pinned spread", LOWER, "pack its set", "placements=[spread,packed]"),
    ],
)
def test_the_faster_variant_is_advised(
    kind: Kind, over: str, under: str, of: Estimate, advice: str, varied: str
) -> None:
    small = ratio(1.1, 1.06, 1.15) if of is HIGHER else ratio(0.92, 0.88, 0.94)
    told = [
        effect(kind, small, at(1, over), at(1, under)),
        effect(kind, of, at(2, over), at(2, under)),
        effect(kind, UNDECIDED, at(4, over), at(4, under)),
    ]
    slow, fast = (over, under) if of is HIGHER else (under, over)
    cells = [cell(at(2, slow), throttled=0.1), cell(at(2, fast), throttled=0.0)]
    (finding,) = variant_findings(told, cells, REPEAT, VARIANTS)
    assert finding.estimate == of, "the farthest from 1"
    assert advice in finding.advice
    assert finding.verify == f"{REPEAT} --set {varied} --set sizes=[1,2]"
    # Of what the slower takes more, so much is the wait that the faster has not.
    more = 1.2 if of is HIGHER else 1 / 0.8
    assert finding.share == pytest.approx(more * 0.1 / (more - 1))
    assert "; at 2 CPUs it" in finding.sentence
    assert f"{more:.2f}× [" in finding.sentence


def test_both_directions_of_a_variant_are_two_findings_and_other_pairs_are_apart() -> None:
    told = [
        effect("period", HIGHER, at(1, "vanilla 10ms"), at(1)),
        effect("period", LOWER, at(2, "vanilla 10ms"), at(2)),
        effect("period", HIGHER, at(1, "vanilla 50ms"), at(1)),
        effect("period", SAME, at(4, "vanilla 50ms"), at(4)),
    ]
    found = list(variant_findings(told, [], REPEAT, VARIANTS))
    assert [f.verify.split("--set ")[1].strip() for f in found] == [
        "periods=[10ms,100ms]",
        "periods=[100ms,10ms]",
        "periods=[50ms,100ms]",
    ]
    assert all(f.share is None for f in found)


def test_a_network_pair_is_told_bare_first_and_each_way_apart() -> None:
    bare = "bare"
    told = [
        effect("network", HIGHER, at(1), at(1)),
        effect("network", MUCH_HIGHER, at(2), at(2)),
        effect("network", LOWER, at(4), at(4)),
        effect("network", SAME, at(8), at(8)),
        effect("network", HIGHER, at(1, "", bare), at(1, "", bare)),
    ]
    first, second, third = network_findings(told, REPEAT)
    assert "what namespaces and a veth change by themselves" in first.sentence
    assert (second.estimate, [e.value for e in second.evidence]) == (MUCH_HIGHER, [1.2, 1.9])
    assert second.verify == f"{REPEAT} --set sizes=[1,2]"
    assert (third.estimate, third.verify) == (LOWER, f"{REPEAT} --set sizes=[4]")
    assert "network=host" in second.advice and "network=pair" in third.advice


def test_a_share_of_a_host_that_costs_comes_with_the_least_that_does_not() -> None:
    told = [
        effect("CHR", HIGHER, at(1), at(1, host=2)),
        effect("CHR", MUCH_HIGHER, at(2), at(2, host=4)),
        effect("CHR", SAME, at(4), at(4, host=8)),
        effect("CHR × pinning", HIGHER, at(2), at(2, host=4)),
    ]
    cells = [cell(at(2), throttled=0.5)]
    (finding,) = host_findings(told, {16: "whole", 2: "offline", 4: "offline"}, cells, REPEAT)
    assert (finding.estimate, finding.resource) == (MUCH_HIGHER, "throttling")
    # 1/16 and 2/16 of the host cost; above 0.125 the least measured is 4 of 16.
    assert "more than 12 % of its host's CPUs: a share ≥ 25 %" in finding.advice
    assert finding.advice.endswith("or a set of CPUs")
    assert "a set of CPUs makes that less" in finding.sentence
    assert "confined" not in finding.sentence
    assert finding.verify == f"{REPEAT} --set hosts=[2,4,16] --set sizes=[1,2]"
    (confined,) = host_findings(told[:1], {16: "whole", 2: "confined"}, [], REPEAT)
    assert "the smaller host was confined" in confined.sentence
    assert not confined.advice.endswith("or a set of CPUs")


def test_of_a_part_of_a_cpu_the_share_of_the_host_has_no_cause_either() -> None:
    """Most of what it is throttled for is what was asked for."""
    told = [effect("CHR", HIGHER, at(0.5), at(0.5, host=2)), effect("CHR", SAME, at(4), at(4, host=8))]
    (finding,) = host_findings(told, {}, [cell(at(0.5), throttled=0.5)], REPEAT)
    assert (finding.resource, finding.share) == ("unexplained", None)
    assert "on the larger" not in finding.sentence


def test_a_share_that_costs_nothing_needs_no_minimum() -> None:
    told = [
        effect("CHR", LOWER, at(1), at(1, host=2)),
        effect("CHR", ratio(0.5, 0.4, 0.6), at(2), at(2, host=4)),
    ]
    (finding,) = host_findings(told, {}, [cell(at(2), throttled=0.5)], REPEAT)
    assert finding.estimate.value == 0.5
    assert finding.share is None, "what it gains has no cause here"
    assert "no least share of the host is needed" in finding.advice
