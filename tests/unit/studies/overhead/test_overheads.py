"""Overhead studies, analysed: known costs are found again, with what they come from and what they advise."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.document import Analysis
from contend.probes.observed import Observed
from contend.report import scheduling_words
from contend.report.model import ReportInput
from support.intervals import holds
from support.made_runs import Made

TEXT = """
study: overhead
title: What does it cost?
apps: [mpi-prime, ffmpeg]
sizes: [0.5, 1, 2, 4]
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""
# On vanilla containers of mpi-prime half of the host costs 1.2 and a quarter 1.5; ffmpeg pays for nothing.
SLOW = {
    "mpi-prime|bare 1 CPU": 4.0,
    "mpi-prime|bare 2 CPUs": 2.0,
    "mpi-prime|container vanilla 0.5 CPU": 4.0 * 2 * 1.8,
    "mpi-prime|container pinned 0.5 CPU": 4.0 * 2,
    "mpi-prime|container vanilla 1 CPU": 4.0 * 1.5,
    "mpi-prime|container pinned 1 CPU": 4.0,
    "mpi-prime|container vanilla 2 CPUs": 2.0 * 1.2,
    "mpi-prime|container pinned 2 CPUs": 2.0,
    "ffmpeg|container vanilla 0.5 CPU": 2.0,
    "ffmpeg|container pinned 0.5 CPU": 2.0,
}
EVIDENCE = {"mpi-prime|container vanilla 1 CPU": {"wall": 6.0, "throttled": 2.0, "cpu": 4.0}}


def analysed(place: Path, blocks: int = 15, *, emulated: bool = False) -> Analysis:
    made = Made(place, blocks, SLOW, EVIDENCE, environment={"cpus": 4}, text=TEXT)
    if emulated:
        rows = made.run.path / "trials.ndjson"
        honoured = '"honoured": {"emulated": true, "libvirt": "qemu:///session"}'
        rows.write_text(rows.read_text().replace('"factors"', f'{honoured}, "factors"'))
    return made.analyse()


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return analysed(tmp_path_factory.mktemp("overhead"))


def test_a_part_of_a_cpu_is_compared_with_that_part_of_the_bare_one(analysis: Analysis) -> None:
    ratios = {c.cell: c.estimate for c in analysis.cells if c.metric.primary}
    assert ratios["ffmpeg|container vanilla 0.5 CPU"].verdict == "unaffected"
    assert ratios["mpi-prime|container pinned 0.5 CPU"].verdict == "unaffected"
    found = ratios["mpi-prime|container vanilla 0.5 CPU"]
    assert holds(found, 1.8)


def test_type_and_size_are_told_apart(analysis: Analysis) -> None:
    assert analysis.result is not None
    parts = {(d.application, d.provisioning): d for d in analysis.result.decompositions}
    vanilla = parts["mpi-prime", "vanilla"]
    assert vanilla.standing == "claim" and vanilla.pto.verdict == "unaffected"
    for part, truth in zip(vanilla.pso, (1.8, 1.5, 1.2), strict=True):
        assert holds(part.ratio, truth)
    assert {p.ratio.verdict for p in parts["ffmpeg", "vanilla"].pso} == {"unaffected"}
    assert parts["mpi-prime", "pinned"].standing == "description"


def test_pinning_is_advised_where_it_helps_and_only_there(analysis: Analysis) -> None:
    (pin,) = (f for f in analysis.findings if f.kind == "pin")
    assert pin.subject == "mpi-prime" and "a set of CPUs" in pin.advice
    assert (
        "1.80× [1.78, 1.83] at 0.5 CPU, 1.51× [1.48, 1.53] at 1 CPU, 1.20× [1.18, 1.22] at 2 CPUs"
        in pin.sentence
    )
    assert "--set apps=mpi-prime --set sizes=[0.5,1,2]" in pin.verify
    # Of a part of a CPU nothing is explained: it is throttled for what was asked for.
    assert (
        "of 1 CPU it was throttled by its CPU quota 2 s of 6 s (100 % of the slowdown, 81–100 %)"
        in pin.sentence
    )
    assert [f.id for f in analysis.findings] == [f"F{n + 1}" for n in range(len(analysis.findings))]
    size = next(f for f in analysis.findings if f.kind == "platform-size")
    assert size.subject == "mpi-prime" and "certainly above 5 % at 50 % of the host" in size.sentence


def test_a_cause_with_a_subject_of_its_own_is_told_as_a_sentence_has_it(tmp_path: Path) -> None:
    dearer = {"mpi-prime|container vanilla 1 CPU": {"wall": 6.0, "cpu": 6.0}}
    made = Made(tmp_path, 15, SLOW, dearer, environment={"cpus": 4}, text=TEXT)
    (pin,) = (f for f in made.analyse().findings if f.kind == "pin")
    assert "; under the quota of 1 CPU the same work took " in pin.sentence
    assert pin.resource == "dearer execution"


def test_without_the_whole_host_it_is_told_that_it_costs_and_no_more(tmp_path: Path) -> None:
    made = Made(
        tmp_path, 15, SLOW, EVIDENCE, environment={"cpus": 8}, text=TEXT.replace("[0.5, 1, 2, 4]", "1")
    )
    found = {finding.kind: finding for finding in made.analyse().findings}
    assert found.keys() == {"pin", "platform-cost"}
    finding = found["platform-cost"]
    assert finding.resource == "throttling"
    assert "1.51× [1.49, 1.53] as long in a vanilla container of 1 CPU" in finding.sentence
    assert "not known" in finding.sentence and "--set sizes=[1,8]" in finding.verify


def test_what_others_advise_is_held_against_it(analysis: Analysis) -> None:
    said = {p.id: p for p in analysis.result.practices}
    assert said["pin-containers"].verdict == "cannot tell", (
        "one application says yes, the other that it is all one"
    )
    assert any(words.startswith("mpi-prime: 1.8") for words in said["pin-containers"].answers)
    assert said["leave-vms-unpinned"].answers == ("vm was not measured",)
    assert said["io-in-containers-in-vms"].verdict == "cannot tell"
    assert said["enough-of-the-host"].verdict == "refuted", "above 5 % at half of the host, far above 0.14"
    assert set(said) == {
        "small-vanilla-containers",
        "pin-containers",
        "leave-vms-unpinned",
        "io-in-containers-in-vms",
        "enough-of-the-host",
    }


def test_a_size_left_out_is_predicted_from_four(analysis: Analysis) -> None:
    from contend.stats.platform_curves import Curve

    assert analysis.result is not None
    curves = {(c.application, c.provisioning): c for c in analysis.result.curves}
    curve = curves["mpi-prime", "vanilla"]
    assert isinstance(curve, Curve)
    assert [held.size for held in curve.held_out] == [0.5, 1, 2, 4]


def test_the_answer_and_the_document(analysis: Analysis) -> None:
    assert analysis.answer.startswith("mpi-prime takes 1.8")
    assert "× as long in a vanilla container of 0.5 CPU (1.7" in analysis.answer
    assert "The other comparisons: 2 slower, " in analysis.answer
    jsonschema.validate(analysis.to_json(), analysis_schema())


def test_too_few_blocks_give_no_finding_and_no_verdict(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, blocks=4)
    assert analysis.findings == () and analysis.answer.startswith("No answer yet")
    assert {p.verdict for p in analysis.result.practices} == {"cannot tell"}
    jsonschema.validate(analysis.to_json(), analysis_schema())


def test_a_bare_host_that_was_left_is_no_baseline(tmp_path: Path) -> None:
    """As x265 does: an affinity does not hold it, so that its one CPU was two."""
    made = Made(tmp_path, 15, SLOW, EVIDENCE, environment={"cpus": 4}, text=TEXT)
    rows = made.run.path / "trials.ndjson"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in lines:
        if row["cell"] == "mpi-prime|bare 1 CPU":
            row["flags"] = ["left-its-cpus"]
    rows.write_text("".join(json.dumps(row) + "\n" for row in lines))
    analysis = made.analyse()
    estimates = {c.cell: c.estimate for c in analysis.cells if c.metric.primary}
    for place in ("vanilla 0.5 CPU", "pinned 0.5 CPU", "vanilla 1 CPU", "pinned 1 CPU"):
        refused = estimates[f"mpi-prime|container {place}"]
        assert refused.verdict == "refused" and "left the CPUs it was given" in refused.warnings[0]
    assert estimates["mpi-prime|container vanilla 2 CPUs"].verdict == "higher"
    assert analysis.result is not None
    pinning = {e.over[0].size: e for e in analysis.result.effects if e.over[0].application == "mpi-prime"}
    assert pinning[1].ratio.verdict == "higher", "of two containers: no baseline is needed"
    part = next(d for d in analysis.result.decompositions if d.application == "mpi-prime")
    assert [p.ratio.verdict for p in part.pso] == ["too few", "too few", "higher"]
    assert any(note.startswith("mpi-prime, 1 CPU, has no ratio") for note in analysis.result.notes)
    jsonschema.validate(analysis.to_json(), analysis_schema())


def test_a_cell_whose_limit_others_changed_is_in_no_comparison(tmp_path: Path) -> None:
    """One trial is enough: `docker update` in the midst of it."""
    made = Made(tmp_path, 15, SLOW, EVIDENCE, environment={"cpus": 4}, text=TEXT)
    rows = made.run.path / "trials.ndjson"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    cell = "mpi-prime|container vanilla 1 CPU"
    row = next(row for row in lines if row["cell"] == cell and row["phase"] == "counted")
    change = {"file": "/sys/fs/cgroup/box/cpu.max", "before": "100000 100000", "after": "50000 100000"}
    row |= {"flags": ["limit-changed"], "limits_changed": [change]}
    rows.write_text("".join(json.dumps(row) + "\n" for row in lines))
    analysis = made.analyse()
    refused = {c.cell for c in analysis.cells if c.estimate.verdict == "refused"}
    assert refused == {cell}
    (found,) = (c for c in analysis.cells if c.cell == cell)
    assert "cpu.max of /sys/fs/cgroup/box: 100000 100000 → 50000 100000" in found.estimate.warnings[0]
    assert analysis.flags["limit-changed"] == 1
    assert analysis.result is not None
    pinning = {e.over[0].size for e in analysis.result.effects if e.over[0].application == "mpi-prime"}
    assert 1 not in pinning and 2 in pinning
    assert "at 1 CPU" not in " ".join(f.sentence for f in analysis.findings if f.subject == "mpi-prime")
    jsonschema.validate(analysis.to_json(), analysis_schema())


IN_VMS = """
study: overhead
title: Inside of a machine?
apps: [fio]
platforms: [vm, container-in-vm]
sizes: [2]
provisioning: [vanilla]
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""
VM, INSIDE = "fio|vm vanilla 2 CPUs", "fio|container-in-vm vanilla 2 CPUs"


@pytest.mark.parametrize(
    ("cell", "changed", "says"),
    [
        ("", False, "0.5"),
        (VM, False, "nothing here tells"),
        (VM, True, "nothing here tells"),
        (INSIDE, False, "container-in-vm has no figure that can be used"),
    ],
)
def test_what_has_no_ratio_judges_no_practice(tmp_path: Path, cell: str, changed: bool, says: str) -> None:
    """A rate of 0, or a limit that others changed meanwhile, in one trial."""
    made = Made(tmp_path, 15, {INSIDE: 0.5}, {}, environment={"cpus": 2}, text=IN_VMS)
    rows = made.run.path / "trials.ndjson"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in [row for row in lines if row["cell"] == cell and row["phase"] == "counted"][:1]:
        if changed:
            change = {
                "file": "/sys/fs/cgroup/box/cpu.max",
                "before": "200000 100000",
                "after": "50000 100000",
            }
            row |= {"flags": ["limit-changed"], "limits_changed": [change]}
        else:
            row["metrics"][0]["value"] = 0.0
    rows.write_text("".join(json.dumps(row) + "\n" for row in lines))
    practices = {practice.id: practice for practice in made.analyse().result.practices}
    found = practices["io-in-containers-in-vms"]
    assert found.verdict == ("cannot tell" if cell else "confirmed")
    assert len(found.answers) == 1 and says in found.answers[0]


def test_emulated_machines_are_no_platform_to_judge(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, emulated=True)
    assert analysis.result is not None and "container" in analysis.result.emulated
    assert analysis.findings == ()
    assert {p.verdict for p in analysis.result.practices} == {"cannot tell"}
    assert any("says nothing of virtualisation" in note for note in analysis.result.notes)
    assert any(
        note.startswith("container: QEMU started by libvirt (qemu:///session)")
        for note in analysis.result.notes
    )


def test_pages_of_it(analysis: Analysis) -> None:
    from contend.report.html import render_html
    from contend.report.terminal import render

    report = ReportInput(analysis, {"cpus": 4}, TEXT, (), None, "contend run mine.yaml", "runs/made")
    page = render_html(report)
    assert "What the scheduler did" in page and "What the scheduler did" in render(
        report, width=120, verbose=True
    )
    assert 'id="overhead"' in page and "PTO (type)" in page and "ffmpeg, 0.5 CPU" in page
    for width in (80, 120):
        text = render(report, width=width)
        assert "container vanilla" in text.replace("\n", " ") and "What others advise" in text
        assert max(map(len, text.splitlines())) <= max(width, 100)


def test_what_the_scheduler_did_stands_beside_what_it_did_to_the_bare_host(analysis: Analysis) -> None:
    told = {row[:2]: row[2:] for row in scheduling_words.rows(analysis)}
    base = next(c for c in analysis.cells if c.cell == "mpi-prime|container vanilla 1 CPU").baseline_evidence
    cpu, waiting, throttled, away = told["mpi-prime", "container vanilla, 1 CPU"]
    assert cpu == f"{4.0 / base[Observed.CPU][0]:.2f}"
    assert throttled.endswith("333")  # 2 s of 6
    assert waiting == away == "-" or "→" in waiting
    assert len(told) == len([c for c in analysis.cells if c.metric.primary])


def test_a_table_for_a_paper(analysis: Analysis, tmp_path: Path) -> None:
    from contend.report.export import export

    report = ReportInput(analysis, {"cpus": 4}, TEXT, (), None, "contend run mine.yaml", "runs/made")
    export(report, "latex", tmp_path / "table.tex")
    lines = (tmp_path / "table.tex").read_text().splitlines()
    assert lines[7] == r"application & bare & container vanilla & container pinned \\"
    assert lines[8] == r"\midrule"
    assert lines[9].startswith("mpi-prime, 0.5 CPU & 4.") and lines[9].endswith(r"\textsuperscript{\dag} \\")
    assert lines[9].count("&") == 3 and "1.80 [1.78, 1.83]" in lines[9]
    assert lines[3].startswith(r"\caption{What does it cost: slowdown (wall) with 95 \% intervals")
