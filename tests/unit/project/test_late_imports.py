"""An import is inside a function only where `scripts/late_imports.toml` says why."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

import late_imports
import structure
from late_imports import Imports, Late, Table

FILES = {
    "__init__": "",
    "verb": "def show():\n    import numpy.linalg\n    import amqp\n    from made import table, small\n",
    "table": "import duckdb\n",
    "small": "",
    "hook": "def install():\n    import small\n",
}
TABLE = Table(
    commands=(),
    programs=(),
    cost_ms={"numpy": 80.0, "duckdb": 50.0},
    extras={"rpc": ("amqp",)},
    places={"made.hook": "other people's processes"},
    helps={},
)


@pytest.fixture
def made(tmp_path: Path) -> Imports:
    package = tmp_path / "made"
    package.mkdir()
    for name, text in FILES.items():
        (package / f"{name}.py").write_text(text)
    return Imports.of(package)


def rows(made: Imports, table: Table, *has: str) -> dict[str, str]:
    """The row that lets each target be late, beside a command that has these modules."""
    quick = {"show": frozenset(has)}
    return {each.target: late_imports.reason(each, made, table, quick)[0] for each in made.late}


def test_each_late_import_has_a_reason_and_each_reason_a_late_import() -> None:
    imports, table = Imports.of(structure.ROOT / structure.PACKAGE), Table.read()
    quick = late_imports.loaded(table)
    assert len(imports.late) > 100, "the search finds what is late"
    told = [
        f"{each}: to the top"
        for each in imports.late
        if not late_imports.reason(each, imports, table, quick)[0]
    ]
    assert told == []
    assert late_imports.unused(imports, table) == []


def test_what_a_command_does_without_is_late_where_it_costs(made: Imports) -> None:
    assert rows(made, TABLE, "made.verb") == {
        "numpy.linalg": "numpy",
        "amqp": "amqp",
        "made.table": "duckdb",
        "made.small": "",
        "small": "made.hook",
    }


def test_what_every_command_has_anyway_is_at_the_top(made: Imports) -> None:
    found = rows(made, TABLE, "made.verb", "numpy", "numpy.linalg", "duckdb")
    assert (found["numpy.linalg"], found["made.table"]) == ("", "")


def test_what_no_quick_command_imports_is_at_the_top(made: Imports) -> None:
    found = rows(made, TABLE, "made.small")
    assert (found["numpy.linalg"], found["made.table"], found["amqp"]) == ("", "", "amqp")


def test_a_help_does_without_what_its_command_needs(made: Imports) -> None:
    helps = dataclasses.replace(TABLE, helps={"made.verb": "help"})
    assert rows(made, helps, "made.verb")["made.small"] == "made.verb"
    assert rows(made, helps, "made.verb", "made.small")["made.small"] == ""


def test_a_row_about_nothing_is_named(made: Imports) -> None:
    more = dataclasses.replace(TABLE, cost_ms={"numpy": 80.0, "yaml": 11.0}, extras={"rpc": ("amqp", "dask")})
    assert late_imports.unused(made, more) == ["dask", "yaml"]


def test_a_cheap_import_is_no_row(tmp_path: Path) -> None:
    text = late_imports.TABLE.read_text(encoding="utf-8")
    (tmp_path / "table.toml").write_text(text.replace("[cost_ms]\n", "[cost_ms]\nselect = 0.1\n"))
    with pytest.raises(ValueError, match="select: below 2"):
        Table.read(tmp_path / "table.toml")


def test_the_cost_is_what_the_importing_process_does_not_have() -> None:
    imports = Imports(
        at_once={}, late=(Late("json", 1, "http.server"), Late("http.server", 1, "socketserver"))
    )
    assert late_imports.measured_ms("http", imports) > 2
    assert late_imports.measured_ms("socketserver", imports) < 1
