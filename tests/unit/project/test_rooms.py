"""Which rooms of the package know which: what plans, measures, analyses, reports, advises and estimates names no study."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import contend
from contend.studies import registry as studies

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

import structure

PACKAGE = Path(contend.__file__).parent
ROOMS = ("engine", "analysis", "report", "cli", "advice", "stats")
STUDIES = {path.name for path in (PACKAGE / "studies").iterdir() if (path / "study.py").is_file()}
MOST_AT_ROOT = 10
ALLOWED = {"cli/ab_.py": {"compare"}, "cli/prove_.py": {"prove"}, "cli/try_.py": {"prove"}}
"""A verb that is one study's by its meaning."""


def named(path: Path) -> Iterator[str]:
    """Studies whose modules a file imports, for types too, and whose names it compares with a study's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = []
        if isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        for module in modules:
            parts = module.split(".")
            if parts[:2] == ["contend", "studies"] and parts[2] in STUDIES:
                yield parts[2]
        if isinstance(node, ast.Compare) and ".study" in ast.unparse(node):
            yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value in STUDIES)


def test_every_study_is_a_folder_and_in_the_registry() -> None:
    modules = [study.__module__.split(".") for _, study in studies.every()]
    assert {module[2] for module in modules if module[:2] == ["contend", "studies"]} == STUDIES and len(
        STUDIES
    ) == 10


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_names_no_study(room: str) -> None:
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert files
    found = {
        str(path.relative_to(PACKAGE)): told - ALLOWED.get(str(path.relative_to(PACKAGE)), set())
        for path in files
        if (told := set(named(path)))
    }
    assert {name: told for name, told in found.items() if told} == {}


def test_a_name_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from contend.studies.growth.model import Growth\nif scenario.study == 'storm': pass\n"
        "from contend.studies.registry import study\n"
    )
    assert set(named(tmp_path / "a.py")) == {"growth", "storm"}


def test_few_modules_lie_at_the_root() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_AT_ROOT


def test_what_measures_knows_no_test_bed() -> None:
    files = sorted((PACKAGE / "workloads" / "drivers").rglob("*.py"))
    assert len(files) > 4
    assert not [path for path in files if "contend.testbed" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("kind", ["unit", "system", "contract"])
def test_tests_lie_by_the_room_that_they_are_about(kind: str) -> None:
    tests = PACKAGE.parents[1] / "tests" / kind
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"project", "results"}
    lie = {path.relative_to(tests).parts[0] for path in tests.rglob("test_*.py")}
    assert len(lie) > 4
    assert lie - rooms == set()


def test_no_files_import_each_other_in_a_circle() -> None:
    """Whether at once or inside functions. Between rooms lint-imports holds that, by `make check`."""
    found = structure.modules(PACKAGE)
    assert structure.circles({name: module.at_once | module.later for name, module in found.items()}) == []


def test_a_circle_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "contend"
    package.mkdir()
    for name, text in (
        ("__init__", ""),
        ("a", "from contend import b"),
        ("b", "def f():\n    import contend.a"),
    ):
        (package / f"{name}.py").write_text(text)
    found = structure.modules(package)
    graph = {name: module.at_once | module.later for name, module in found.items()}
    assert structure.circles(graph) == [["contend.a", "contend.b"]]
