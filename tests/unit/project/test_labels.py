"""Values stay values: what the package has put into words for people it never reads back.

Every place in these rooms that takes a text apart is listed here with what it takes apart: commands of users, files of the
kernel, texts of other programs. A label of ours is none of these. Only `store/old_labels.py` reads labels, those of runs
that earlier versions made.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import contend
from contend.engine.plan import make_plan
from contend.store.cells import Application, PlannedCell, planned_cells
from contend.store.planned import wrong_plan
from contend.studies.scenarios import builtin_names, load

PACKAGE = Path(contend.__file__).parent
ROOMS = ("advice", "analysis", "contention", "context", "engine", "report", "store", "studies")
TAKES_APART = frozenset(
    {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"}
    | {"fullmatch", "search", "match", "findall", "finditer", "sub", "subn"}
)
_IN_TEMPLATE = re.compile(rf"\.({'|'.join(sorted(TAKES_APART))})\(")
_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "a command, path, query or expression of the user's": (
        "advice/finding.py::set_once",
        "analysis/price.py::parse_price",
        "analysis/price.py::is_time_or_rate",
        "contention/groups.py::matches",
        "studies/prove/model.py::_cpus",
        "studies/prove/policy.py::_of_day",
        "contention/run_events.py::tables_in",
        "engine/checks.py::_check_variables",
        "report/words.py::command_with_budget",
        "engine/checks.py::_check_own_command",
        "studies/model.py::OwnCommand._splits",
        "studies/model.py::_hypervisor",
        "studies/scenarios.py::builtin",
        "studies/scenarios.py::find",
        "studies/scenarios.py::parse",
    ),
    "names of the kernel, of cgroups, processes, functions and devices": (
        "contention/alibi/cpu.py::_thread",
        "contention/alibi/scope.py::victims",
        "contention/alibi/scope.py::_with_ancestors",
        "contention/findings.py::_advice",
        "contention/findings.py::_treatment",
        "contention/findings.py::_verify",
        "contention/groups.py::choose",
        "contention/groups.py::machine_name",
        "contention/groups.py::Namer.__call__",
        "contention/groups.py::Namer._of_machine",
        "contention/groups.py::Namer._of_script",
        "contention/groups.py::names_of",
        "contention/groups.py::script_of",
        "contention/groups.py::program_of",
        "contention/scheduling.py::_subjects",
        "contention/suspects.py::_groups",
        "contention/suspects.py::_pid",
        "contention/suspects.py::_treated_by",
        "contention/tenants.py::tenant",
        "contention/tenants.py::_machines",
        "contention/tenants.py::_first_process",
        "engine/doctor.py::_run_delay",
        "engine/groups_watch.py::_children",
        "engine/neighbours.py::disk_bytes",
        "engine/trial.py::dirty_bytes",
        "store/ledger.py::_holder",
        "store/ledger.py::_is_gone",
        "report/hunt_plots.py::short_path",
        "report/sample_terminal.py::_where",
        "report/stack_plot.py::boxes",
        "report/stack_plot.py::_name",
        "studies/prove/holding.py::keep",
        "studies/prove/trying.py::keep",
        "studies/storage/pools.py::mount_of",
        "studies/storage/pools.py::_engine",
    ),
    "spans of a trace, by the names that the tracer's file has": (
        "contention/hunting/calls.py::_again",
        "contention/hunting/calls.py::_chatty",
        "contention/hunting/charges.py::Charges.part_of_served",
        "context/traces.py::_read",
        "context/traces.py::_path",
    ),
    "names of files, modules and columns": (
        "report/cache.py::path_of",
        "report/cache.py::read",
        "report/html.py::_beside",
        "report/sample_export.py::_Totals.devices",
        "store/directory.py::safe_name",
        "store/claims.py::Fields.path",
        "store/claims.py::_in",
        "store/rows.py::_inside",
        "store/series.py::covered_files",
        "store/series.py::pattern",
        "store/series.py::series_files",
        "store/series.py::_broken",
        "store/state.py::cache",
        "store/state.py::folder",
        "store/state.py::survey",
        "store/traces.py::_is_trace",
        "studies/base.py::Study.section",
        "studies/registry.py::described",
        "studies/registry.py::folders",
        "studies/registry.py::folders_elsewhere",
        "studies/registry.py::whose_defect",
    ),
    "what a program has printed": (
        "engine/output.py::refusal",
        "engine/output.py::last_words",
    ),
    "a file, line by line or as bytes": (
        "store/compact.py::Compactor._shape",
        "store/compact.py::Compactor._learn",
        "store/damage.py::showable",
        "store/damage.py::row_parser.parse",
        "store/damage.py::numbered_rows",
        "store/directory.py::RunDirectory._study",
        "store/ledger.py::begins_trial",
        "store/ledger.py::parse",
        "store/ledger.py::_lines_without_trials",
        "store/directory.py::RunDirectory.environment",
        "studies/overhead/practices.py::_judge",
    ),
    "a text as it is drawn: its lines, its escapes, its colours": (
        "report/benchmark_export.py::_code",
        "report/benchmark_export.py::_escaped",
        "report/card.py::_facts",
        "report/card.py::_wrapped",
        "report/export.py::_openmetrics",
        "report/export.py::_label_names",
        "report/hunt_graph.py::_wrapped",
        "report/latex.py::escape",
        "report/latex.py::_tabular",
        "report/printer.py::Printer.__init__",
        "report/printer.py::_least",
        "report/printer.py::_records",
        "report/progress.py::ConsoleProgress.comparisons",
        "report/progress.py::ConsoleProgress.line",
        "report/theme.py::resolve",
        "report/vega.py::drawable",
        "report/whatif_terminal.py::_lines",
        "report/whatif_terminal.py::measured",
    ),
    "the first of several hints of an error": ("studies/base.py::works",),
    "an error's message, which already says where": ("store/series.py::_is_parquet",),
    "an array (numpy), no text": ("contention/alibi/ceiling.py::knees",),
    "labels of runs and files that earlier versions made": (
        "contention/whatif/verification.py::stored",
        "store/old_labels.py::described",
        "store/old_labels.py::_platform",
        "store/old_labels.py::flag_kind",
        "store/old_labels.py::_application",
        "store/old_labels.py::_settings",
    ),
}
"""By what is taken apart: FILE::FUNCTION."""


def taken_apart(path: Path) -> Iterator[str]:
    """Functions of a file, or the template, in which a text is taken apart."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        if _IN_TEMPLATE.search(text):
            yield path.name
        return

    def within(node: ast.AST, name: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            called = child.func if isinstance(child, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in TAKES_APART:
                yield name or "module"
            yield from within(
                child, f"{name}.{child.name}".lstrip(".") if isinstance(child, _NAMED) else name
            )

    yield from within(ast.parse(text), "")


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_reads_a_label(room: str) -> None:
    files = [p for p in (PACKAGE / room).rglob("*") if p.suffix in (".py", ".j2")]
    assert files
    found = {f"{p.relative_to(PACKAGE)}::{name}" for p in files for name in taken_apart(p)}
    listed = {place for places in ALLOWED.values() for place in places if place.split("/")[0] == room}
    assert found - listed == set(), "say what it takes apart, and keep the value if that is a label of ours"
    assert listed - found == set(), "listed and not there any more"


def numbers_of_factors(text: str) -> list[str]:
    """Calls of int and float on a factor: a number is among the cell's values."""
    called = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.args)
    named = (node for node in called if isinstance(node.func, ast.Name) and node.func.id in ("int", "float"))
    return [said for node in named if "factors" in (said := ast.unparse(node.args[0]))]


def test_no_number_is_read_from_a_factor() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "old_labels.py"]
    assert {p.name: read for p in files if (read := numbers_of_factors(p.read_text(encoding="utf-8")))} == {}
    assert numbers_of_factors("x = int(cell.factors['n']); y = float(1)") == ["cell.factors['n']"]


def test_every_way_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import re\nX = 'a [b]'.split('[')\nclass A:\n    def f(self, cell): return cell.removesuffix(' (control)')\n"
        "def g(cell): return (lambda c: re.fullmatch('a', c))(cell)\ndef h(cell): return cell.upper()\n"
    )
    (tmp_path / "b.j2").write_text('{{ line.startswith("ALARM") }}')
    (tmp_path / "c.j2").write_text("{{ line }}")
    assert list(taken_apart(tmp_path / "a.py")) == ["module", "A.f", "g"]
    assert [list(taken_apart(tmp_path / name)) for name in ("b.j2", "c.j2")] == [["b.j2"], []]


def as_text(of: Application | None) -> tuple[str, dict[str, str], dict[str, float]] | None:
    """Labels hold all parameters as text."""
    if of is None:
        return None
    written = {k: json.dumps(v) if isinstance(v, bool) else f"{v}" for k, v in of.parameters.items()}
    return of.workload, written, dict(of.limits)


def read(cell: PlannedCell) -> tuple[Any, ...]:
    of = cell.values
    return of.copies, of.platform, as_text(of.victim), [as_text(one) for one in of.neighbours]


@pytest.mark.parametrize(
    "settings",
    [(), ("copies=[2,4]", "neighbours=[{workload: fio, parameters: {read: 0}, limit: {iops: 100}}]")],
)
def test_an_old_plan_has_the_values_of_a_new_one(settings: tuple[str, ...]) -> None:
    names = ("noisy-neighbour",) if settings else builtin_names()
    seen = 0
    for name in names:
        scenario = load(name, settings)
        if scenario.study == "overhead":  # whose sizes are otherwise those that fit the host
            scenario = load(name, ("sizes=[0.5,1]", "periods=[10ms,100ms]", "placements=[packed,spread]"))
        if scenario.study not in ("interference", "overhead", "sensitivity"):
            continue  # others have values that nobody asks for: the victim of a variant, say, is no factor
        new = json.loads(json.dumps(make_plan(scenario, 1).to_json()))
        old = {**new, "cells": [{k: v for k, v in c.items() if k != "values"} for c in new["cells"]]}
        old = json.loads(json.dumps(old).replace("fio writes", "fio[read=0]"))  # as earlier versions named it
        assert wrong_plan(new, scenario.study) == wrong_plan(old, scenario.study) == ""
        assert [read(c) for c in planned_cells(new)] == [read(c) for c in planned_cells(old)], name
        seen += len(new["cells"])
    assert seen > 10


def test_a_control_repeats_its_baseline() -> None:
    plan = json.loads(json.dumps(make_plan(load("platform-overhead", ["sizes=[1]"]), 1).to_json()))
    controls = [cell for cell in planned_cells(plan) if cell.control]
    assert controls
    for cell in controls:
        assert cell.repeats["platform"] == "bare" != cell.factors["platform"]
        assert cell.measures == cell.baseline != cell.id


@pytest.mark.parametrize(("name", "key"), [("noisy-neighbour", "victim"), ("platform-overhead", "platform")])
def test_values_that_lack_what_a_study_reads_are_damage(name: str, key: str) -> None:
    settings = ("sizes=[1]",) if name == "platform-overhead" else ()
    scenario = load(name, settings)
    plan = json.loads(json.dumps(make_plan(scenario, 1).to_json()))
    del plan["cells"][2]["values"][key]
    assert wrong_plan(plan, scenario.study) == f"cells.2.values.{key}: it is missing"
