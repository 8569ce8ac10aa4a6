"""Periods, bursts and placements of an overhead study: each a cell, and what a host does not give is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.document import Analysis
from contend.engine import checks
from contend.errors import BadInput, CannotHonour, ScenarioError
from contend.platforms.base import PERIOD_US, Limit
from contend.platforms.cgroups import Hierarchy, Layout
from contend.platforms.topology import Cpu, Topology
from contend.report.model import ReportInput
from contend.scenario.yaml_file import read_yaml
from contend.studies import platform_settings
from contend.studies.overhead.model import Overhead
from contend.studies.overhead.variants import Variant, pairs
from contend.studies.registry import cells_of
from contend.studies.scenarios import load, parse, to_yaml
from support.intervals import holds
from support.made_runs import Made

TWO = Topology((Cpu(0, 0), Cpu(1, 1)))
SMT = Topology(tuple(Cpu(n, n % 4, cache=n % 4 // 2) for n in range(8)))
NOWHERE = Layout(None, {})


def overhead(*settings: str) -> Overhead:
    asked = load("platform-overhead", ("apps=mpi-prime", *settings))
    assert isinstance(asked, Overhead)
    return asked


def labels(asked: Overhead) -> list[str]:
    return [cell.id.partition("|")[2] for cell in cells_of(asked) if cell.baseline and not cell.control]


def with_burst(place: Path) -> Layout:
    (place / "cpu.cfs_burst_us").touch()
    return Layout(None, {"cpu": Hierarchy(1, place, place, frozenset({"cpu"}))})


def test_each_period_and_burst_is_a_cell() -> None:
    asked = overhead("sizes=1", "periods=10ms, 100ms", "bursts=[0, 5ms]", "provisioning=vanilla")
    assert labels(asked) == [
        "container vanilla 10ms 1 CPU",
        "container vanilla 10ms burst 5ms 1 CPU",
        "container vanilla 1 CPU",
        "container vanilla burst 5ms 1 CPU",
    ]
    cell = next(c for c in cells_of(asked) if c.id.endswith("vanilla 10ms burst 5ms 1 CPU"))
    assert cell.victim.limit == Limit(cpus=1, period_us=10_000, burst_us=5_000)
    assert (cell.factors["provisioning"], cell.factors["period"], cell.factors["burst"]) == (
        "vanilla 10ms burst 5ms", "10ms", "5ms",
    )  # fmt: skip
    usual = next(c for c in cells_of(asked) if c.id.endswith("|container vanilla 1 CPU"))
    assert not {"period", "burst", "placement"} & usual.factors.keys()


def test_pinned_is_not_varied_by_what_is_of_a_quota() -> None:
    asked = overhead("sizes=0.5", "periods=[10ms, 100ms]", "provisioning=pinned")
    assert labels(asked) == ["container pinned 0.5 CPU"]
    assert [c.victim.limit for c in cells_of(asked) if "pinned" in c.id] == [Limit(cpus=0.5)]


def test_what_no_kernel_takes_is_left_out_with_the_reason(tmp_path: Path) -> None:
    asked = overhead("sizes=[0.05, 0.5]", "periods=[10ms, 100ms]", "bursts=[0, 20ms]", "provisioning=vanilla")
    refused = {p.label: why for p, why in platform_settings.cannot(asked, TWO, with_burst(tmp_path)).items()}
    assert refused.keys() == {
        "container vanilla 10ms 0.05 CPU",
        "container vanilla 10ms burst 20ms 0.05 CPU",
        "container vanilla burst 20ms 0.05 CPU",
        "container vanilla 10ms burst 20ms 0.5 CPU",
    }
    assert "none below 1 ms" in refused["container vanilla 10ms 0.05 CPU"]
    assert "above its quota of 5 ms" in refused["container vanilla burst 20ms 0.05 CPU"]


def test_without_the_kernels_file_there_is_no_burst() -> None:
    asked = overhead("sizes=1", "bursts=[0, 5ms]", "provisioning=vanilla")
    refused = platform_settings.cannot(asked, TWO, NOWHERE)
    assert [p.label for p in refused] == ["container vanilla burst 5ms 1 CPU"]
    (line,) = platform_settings.refusal_lines(refused)
    assert line == "container vanilla burst 5ms, 1 CPU: there are no control groups here"


def test_of_guests_only_those_with_a_quota(tmp_path: Path) -> None:
    asked = overhead(
        "sizes=[0.5, 1]", "periods=10ms", "bursts=[0, 1ms]", "provisioning=vanilla",
        "platforms=[vm, container-in-vm]",
    )  # fmt: skip
    refused = {p.label: why for p, why in platform_settings.cannot(asked, TWO, with_burst(tmp_path)).items()}
    assert refused["vm vanilla 10ms 1 CPU"] == "a virtual machine of whole CPUs has no quota"
    assert "vm vanilla 10ms 0.5 CPU" not in refused and "vm vanilla 10ms burst 1ms 0.5 CPU" not in refused
    assert refused["container-in-vm vanilla 10ms burst 1ms 1 CPU"].endswith("is given no burst")
    assert "container-in-vm vanilla 10ms 1 CPU" not in refused


def test_where_packed_and_spread_are_the_same_the_second_is_left_out() -> None:
    asked = overhead("sizes=[1, 2]", "placements=[packed, spread]", "provisioning=pinned")
    refused = platform_settings.cannot(asked, TWO, NOWHERE)
    assert [p.label for p in refused] == ["container pinned spread 1 CPU", "container pinned spread 2 CPUs"]
    (line,) = platform_settings.refusal_lines(refused)
    assert line.startswith("container pinned spread, 1 CPU, 2 CPUs: of 2 CPUs wired as they are here")
    assert [p.label for p in platform_settings.cannot(asked, SMT, NOWHERE)] == [
        "container pinned spread 1 CPU"
    ]
    cells = {c.id.partition("|")[2]: c for c in cells_of(asked)}
    packed, apart = (cells[f"container pinned{how} 2 CPUs"].victim.platform for how in ("", " spread"))
    assert packed is not None and apart is not None
    assert packed.cpus(SMT) == (3, 7) and apart.cpus(SMT) == (1, 3)


def test_one_placement_alone_is_kept() -> None:
    asked = overhead("sizes=1", "placements=spread", "provisioning=pinned")
    assert platform_settings.cannot(asked, TWO, NOWHERE) == {} and labels(asked) == [
        "container pinned spread 1 CPU"
    ]


def test_what_is_left_out_stays_out_when_the_scenario_is_read_again() -> None:
    asked, skipped = checks.fitted(
        overhead("sizes=[0.05, 1]", "periods=[10ms, 100ms]", "without=container pinned 1 CPU, tiny")
    )
    assert isinstance(asked, Overhead)
    assert any("none below 1 ms" in line for line in skipped)
    assert "without: there is no place 'tiny'" in skipped
    left = ["container vanilla 0.05 CPU", "container pinned 0.05 CPU"]
    left += ["container vanilla 10ms 1 CPU", "container vanilla 1 CPU"]
    assert labels(asked) == left
    again = parse(read_yaml(to_yaml(asked), "again.yaml", ScenarioError))
    assert again == asked.model_copy(update={"origin": "again.yaml"})


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(CannotHonour, match="none of the places"):
        checks.fitted(overhead("sizes=0.05", "periods=10ms", "provisioning=vanilla"))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("periods=0.5ms", "a period of 0.5ms is not from 1ms to 1s"),
        ("periods=10", "a period of 10 is not from"),
        ("periods=2s", "a period of 2s is not from"),
        ("periods=soon", "'soon' is not a duration"),
        ("periods=1.0005ms", "no whole number of µs"),
        ("bursts=-1", "is negative"),
        ("bursts=11s", "a burst of 11s is above 10s"),
        ("bursts=100ns", "no whole number of µs"),
        ("placements=far", "'placements: far' is not one of: packed, spread"),
    ],
)
def test_what_cannot_be_asked_of_a_quota(setting: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as error:
        overhead(setting)
    assert error.value.hint and error.value.exit_code == 2


def test_what_is_compared_with_what() -> None:
    usual, short, middle, long = (
        Variant(name, "vanilla", period_us)
        for name, period_us in (
            ("vanilla", PERIOD_US),
            ("vanilla 10ms", 10_000),
            ("vanilla 50ms", 50_000),
            ("vanilla 200ms", 200_000),
        )
    )
    packed, spread = Variant("pinned", "pinned"), Variant("pinned spread", "pinned", placement="spread")
    bursts = [replace(of, name=f"{of.name} burst 5ms", burst_us=5_000) for of in (short, middle)]
    both = pairs([short, usual, long, packed, spread])
    assert both["period"] == (("vanilla 10ms", "vanilla"), ("vanilla", "vanilla 200ms"))
    assert both["pinning"] == (("vanilla", "pinned"),) and both["burst"] == ()
    assert both["placement"] == (("pinned", "pinned spread"),)
    crossed = pairs([short, bursts[0], middle, bursts[1]])
    assert crossed["period"] == (
        ("vanilla 10ms", "vanilla 50ms"),
        ("vanilla 10ms burst 5ms", "vanilla 50ms burst 5ms"),
    )
    assert crossed["burst"] == (
        ("vanilla 10ms", "vanilla 10ms burst 5ms"),
        ("vanilla 50ms", "vanilla 50ms burst 5ms"),
    )


TEXT = """
study: overhead
apps: [mpi-prime]
sizes: [1, 4]
periods: [10ms, 100ms]
bursts: [0, 5ms]
placements: [packed, spread]
without: [container vanilla 10ms burst 5ms 1 CPU, container vanilla 10ms burst 5ms 4 CPUs, container pinned spread 1 CPU]
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""
SLOW = {
    "mpi-prime|container vanilla 10ms 1 CPU": 1.5 * 1.2,
    "mpi-prime|container vanilla 1 CPU": 1.2,
    "mpi-prime|container pinned 4 CPUs": 1.25,
}
EVIDENCE = {
    "mpi-prime|container vanilla 10ms 1 CPU": {"wall": 1.8, "throttled": 0.8, "cpu": 1.0},
    "mpi-prime|container vanilla 1 CPU": {"wall": 1.2, "throttled": 0.2, "cpu": 1.0},
}


def wired(host: Topology, place: Path) -> ReportInput:
    """A made run, with the CPUs of its sets as if the kernel had told them."""
    made = Made(place, 15, SLOW, EVIDENCE, environment={"cpus": 8, "topology": host.to_json()}, text=TEXT)
    rows = []
    for row in made.run.rows():
        asked = made.plan.cell(row["cell"]).victim.platform
        assert asked is not None
        rows.append({**row, "honoured": {"cpus": list(asked.cpus(host))}})
    return ReportInput(
        made.analyse(), made.run.read_json("environment.json"), TEXT, rows, None, "contend run x", "runs/made"
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return wired(SMT, tmp_path_factory.mktemp("places"))


@pytest.fixture(scope="module")
def analysis(report: ReportInput) -> Analysis:
    return report.analysis


def test_the_effect_of_a_period_is_found_with_its_cause(analysis: Analysis) -> None:
    assert analysis.result is not None
    effects = {(e.kind, e.over[0].size): e.ratio for e in analysis.result.effects}
    assert holds(effects["period", 1], 1.5)
    assert effects["period", 4].verdict == "unaffected"
    (finding,) = (f for f in analysis.findings if f.kind == "quota-period")
    assert finding.resource == "throttling" and finding.share is not None and finding.share > 0.8
    assert "under a quota in periods of 10ms takes 1.5" in finding.sentence
    assert "of what it takes under a quota in periods of 100ms; at 1 CPU it was throttled" in finding.sentence
    assert finding.verify.endswith("--set periods=[10ms,100ms] --set sizes=[1]")
    told = next(e for e in analysis.result.to_json()["effects"] if e["kind"] == "period")
    assert told["throttled"] == {"over": pytest.approx(0.8 / 1.8), "under": pytest.approx(0.2 / 1.2)}


def test_the_parts_are_told_once_for_all_kinds_of_quota_and_set(analysis: Analysis, tmp_path: Path) -> None:
    from contend.studies.overhead.words import decomposition_rows, refusals

    found = analysis.result
    assert found is not None and len({d.provisioning for d in found.decompositions}) > 2
    assert decomposition_rows(found) == []
    (line,) = refusals(found)
    assert line.startswith(
        "refused for mpi-prime in container vanilla, container pinned: the largest CHR measured"
    )
    whole = Made(tmp_path, 15, SLOW, EVIDENCE, environment={"cpus": 4}, text=TEXT).analyse().result
    assert whole is not None and refusals(whole) == []
    assert [row[1] for row in decomposition_rows(whole)] == ["container vanilla", "container pinned *"]


def test_a_burst_that_does_nothing_and_a_set_that_is_better_apart(analysis: Analysis) -> None:
    assert analysis.result is not None
    kinds = {e.kind: e for e in analysis.result.effects}
    assert kinds["burst"].over[0].provisioning == "vanilla"
    assert not [f for f in analysis.findings if f.kind == "quota-burst" and f.estimate.low < 1.0]
    (finding,) = (f for f in analysis.findings if f.kind == "placement")
    assert "on a set of CPUs packed takes 1.2" in finding.sentence and "spread" in finding.advice
    assert "placements=[packed,spread]" in finding.verify
    jsonschema.validate(json.loads(json.dumps(analysis.to_json())), analysis_schema())


def test_the_cpus_of_each_set_in_the_terminal_and_on_the_page(report: ReportInput) -> None:
    from contend.report.html import render_html
    from contend.report.terminal import render

    text = render(report, width=100)
    assert "of 1 package, 1 node, 2 last-level caches, 4 cores of 8 threads" in text
    lines = {line.split(",")[0].strip(): line for line in text.splitlines() if "█" in line and "CPUs" in line}
    assert lines["container pinned"].endswith("·· ·· | ██ ██"), "two cores of one cache"
    assert lines["container pinned spread"].endswith("█· █· | █· █·"), "four cores"
    assert "throttled 0.44 s a second on all its CPUs, against 0.17 s" in " ".join(text.split())
    narrow = [line for line in render(report, width=80).splitlines() if "verify: " not in line]
    assert max(map(len, narrow)) <= 80
    page = render_html(report)
    assert page.count('<div class="cpus" role="img"') == 3
    assert 'aria-label="container pinned spread, 4 CPUs: CPU 0-3, 4 cores, 2 caches, 1 node"' in page
    assert page.count('class="cpu taken"') == 1 + 4 + 4


def test_a_host_too_wide_for_a_line_is_told_in_words(tmp_path: Path) -> None:
    from contend.report.cpu_map import cpu_map, terminal_rows

    wide = Topology(tuple(Cpu(n, n % 64, cache=n % 64 // 8, node=n % 64 // 32) for n in range(128)))
    found = cpu_map(wired(wide, tmp_path))
    assert found is not None
    headers, rows = terminal_rows(found, 78)
    assert headers[-1] == "in" and rows[1] == (
        "container pinned, 4 CPUs",
        "62-63,126-127",
        "2 cores, 1 cache, 1 node",
    )
