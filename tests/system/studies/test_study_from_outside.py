"""A study that another package brings by an entry point, from its file to the terminal, JSON, page, export and compare."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.command_line import Home

GUIDE = (Path(__file__).parents[3] / "docs/guides/write-a-study.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    """A block of the guide in a language, its first study's or its second's: the guide is what is run here."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)[number]


class Outside(Home):
    """With the toy installed as another package would be."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.installed = path / "installed"
        self.about = self.installed / "toy_sleeps-1.0.dist-info"
        self.about.mkdir(parents=True)
        (self.installed / "sleeps.py").write_text(block("python"))
        (self.about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-sleeps\nVersion: 1.0\n")
        self.bring()
        (path / "sleeps.yaml").write_text(block("yaml"))

    def bring(self, *more: str) -> None:
        """The guide's entry point, and more of them."""
        named = tomllib.loads(block("toml"))["project"]["entry-points"]["contend.studies"]
        lines = ["[contend.studies]", *(f"{name} = {where}" for name, where in named.items()), *more, ""]
        (self.about / "entry_points.txt").write_text("\n".join(lines))

    def environment(self, **changes: str | None) -> dict[str, str]:
        places = [str(self.installed), os.environ.get("PYTHONPATH", "")]
        return super().environment(PYTHONPATH=os.pathsep.join(filter(None, places)), **changes)

    def schema(self) -> dict[str, Any]:
        """Of findings.json, where the package is installed."""
        code = "import json; from contend.analysis.schema import analysis_schema; print(json.dumps(analysis_schema()))"
        done = subprocess.run(
            [sys.executable, "-c", code], env=self.environment(), capture_output=True, text=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def contend(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


def test_a_study_of_another_package_goes_all_the_way(contend: Outside) -> None:
    shown = contend("validate", "sleeps.yaml", "--show").fine().out
    assert "- 0.02s" in shown and "- 0.06s" in shown, "a bare number would be seconds"
    planned = contend("run", "sleeps.yaml", "--dry-run").fine()
    assert "60 ms" in planned.out
    said = contend("run", "sleeps.yaml", timeout=120).fine()
    assert "is the latest" in said.out and "more than was asked" in said.out
    run = contend.the_run()
    document = json.loads((run / "findings.json").read_text())
    assert document["study"] == "sleeps" and document["sleeps"]["late_s"].keys() == {
        "20 ms",
        "20 ms (control)",
        "60 ms",
    }
    jsonschema.validate(document, contend.schema())
    with pytest.raises(jsonschema.ValidationError, match="late_s"):
        jsonschema.validate({**document, "sleeps": {}}, contend.schema())
    (wall,) = (cell for cell in document["cells"] if cell["metric"]["name"] == "wall")
    assert 2 < wall["estimate"]["value"] < 4, "60 ms against 20 ms, and starting a process"
    gone_on = contend("run", "--resume", str(run), timeout=120).fine()
    assert "is the latest" in gone_on.out, "what the run keeps of its scenario reads back to it"
    assert contend("report", str(run), "--json").fine().json() == document
    page = (run / "report.html").read_text()
    assert "How late is a sleep?" in page and "is the latest" in page
    contend("export", str(run), "--to", "csv", "-o", "cells.csv").fine()
    assert "60 ms" in (contend.path / "cells.csv").read_text()
    again = contend("compare", str(run), str(run), "--json").fine()
    assert {cell["factors"]["variant"] for cell in again.json()["cells"]} >= {"20 ms", "60 ms"}


def test_studies_are_listed_with_the_package_they_come_from(contend: Outside) -> None:
    contend.bring("broken = nothing_of_this_name:STUDY")
    listed = contend("list", "studies").fine().out
    assert re.search(r"^  interference  +Victims alone and beside each neighbour", listed, re.MULTILINE)
    assert re.search(
        r"^  sleeps +Sleeps of several lengths; .* with\. \(package toy-sleeps\)$", listed, re.MULTILINE
    )
    assert re.search(
        r"^  broken +the study 'broken' of the package toy-sleeps cannot be used", listed, re.MULTILINE
    )
    told = contend("list", "studies", "--json").fine().json()["studies"]
    assert "toy-sleeps" in told["sleeps"] and "package" not in told["compare"]
    assert "studies\n" in contend("list").fine().out


@pytest.mark.parametrize(
    "words", [("report", "RUN"), ("export", "RUN", "--to", "csv"), ("run", "--resume", "RUN")]
)
def test_a_run_whose_study_is_not_installed_says_what_is_missing(
    contend: Outside, words: tuple[str, ...]
) -> None:
    contend("run", "sleeps.yaml", "--set", "measure.blocks=2", timeout=120).fine()
    run = contend.the_run()
    assert json.loads((run / "plan.json").read_text())["package"] == {"name": "toy-sleeps", "version": "1.0"}
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    contend.about.rename(contend.path / "away")
    said = contend(*(str(run) if word == "RUN" else word for word in words))
    assert said.code == 2
    assert "unknown study 'sleeps': the package toy-sleeps 1.0, which brings it, is not installed" in said.err
    assert "hint: pip install toy-sleeps" in said.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == kept
    (contend.path / "away").rename(contend.about)
    assert "is the latest" in contend("report", str(run)).fine().out


def test_the_second_study_has_findings_a_table_and_a_plot_of_its_own(contend: Outside) -> None:
    (contend.installed / "gzips.py").write_text(block("python", 1))
    (contend.installed / "section.html.j2").write_text(block("jinja"))
    contend.bring("gzips = gzips:STUDY")
    (contend.path / "gzips.yaml").write_text(block("yaml", 1))
    said = contend("run", "gzips.yaml", timeout=120).fine().out
    assert re.search(r"^ +noise +-1 +524 kB", said, re.MULTILINE), "its own table"
    assert "wall (text) " in said and "wall (noise) " in said, "its controls, by name"
    run = contend.the_run()
    document = json.loads((run / "findings.json").read_text())
    assert document["gzips"]["sizes"]["noise"]["-6"] >= 2**19, "noise is not made smaller"
    assert {found["kind"] for found in document["findings"]} <= {"level in vain"}
    for found in document["findings"]:
        assert found["verify"] in said
    page = (run / "report.html").read_text()
    assert (
        '<figure class="plot plot-sizes" id="figure-sizes">' in page and '<h2 id="sizes">Sizes</h2>' in page
    )
    contend("run", "gzips.yaml", "--set", "inputs=noise", "--dry-run").fine()
    contend("export", str(run), "--to", "csv", "-o", "cells.csv").fine()
    with (contend.path / "cells.csv").open(newline="") as file:
        assert {row["input"] for row in csv.DictReader(file)} == {"text", "noise"}


PLOT = """
def plots(self, report):
    from contend.report.plotkit import Plot, chart
    encoding = {"x": {"field": "x", "type": "quantitative"}}
    spec = chart(90, [{"mark": "point", "encoding": encoding}], [{"x": 1}])
    return [Plot(ID, ROLE, "A point of its own", "One point.", spec, {}, ("x",), (("1",),))]
"""


@pytest.mark.parametrize("role", ["nowhere", "answer", "timeline"])
def test_a_plot_that_no_template_places_is_on_the_page_all_the_same(contend: Outside, role: str) -> None:
    Edited(contend, PLOT.replace("ROLE", repr(role)).replace("ID", "'own-point'"))
    contend("run", "own.yaml", timeout=120).fine()
    page = (contend.the_run() / "report.html").read_text()
    assert page.count('id="figure-own-point"') == 1 and page.count("A point of its own</h3>") == 1
    assert page.count('id="figure-answer"') == 1, "contend's own stays"
    assert '<a href="#figures">' in page and '<h2 id="figures">' in page


def test_two_plots_of_one_id_are_refused(contend: Outside) -> None:
    Edited(contend, PLOT.replace("ROLE", "'own'").replace("ID", "'answer'"))
    said = contend("run", "own.yaml", timeout=120)
    assert said.code == 2 and "the study 'own' makes a plot with the id 'answer'" in said.err
    assert (contend.the_run() / "findings.json").is_file(), "what was measured is kept"


def test_a_study_that_nobody_brings_is_an_error(contend: Outside) -> None:
    contend.bring("other = other:STUDY")
    (contend.path / "other.yaml").write_text(block("yaml").replace("study: sleeps", "study: sleps"))
    said = contend("validate", "other.yaml")
    assert said.code == 2 and "unknown study 'sleps'" in said.err and "sleeps" in said.err


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("STUDY = 'a study'", "no object of a subclass of contend.studies.base.Study"),
        (
            "import sleeps\nclass Bare(sleeps.Study): pass\nSTUDY = Bare()",
            "TypeError: Can't instantiate abstract class Bare",
        ),
        (
            "import sleeps\nclass Odd(sleeps.SleepsStudy): scenario = int\nSTUDY = Odd()",
            "`scenario` is no subclass",
        ),
        (
            "import sleeps\nclass Odd(sleeps.SleepsStudy):\n    def result_type(self): return dict\nSTUDY = Odd()",
            "`result_type` is no class below contend.text.shape.Shape",
        ),
        ("import sleeps\nclass Clash(sleeps.SleepsStudy): key = 'cells'\nSTUDY = Clash()", "under 'cells'"),
    ],
)
def test_a_broken_study_is_an_error_to_who_asks_for_it_only(contend: Outside, code: str, why: str) -> None:
    (contend.installed / "broken.py").write_text(code)
    contend.bring("broken = broken:STUDY")
    (contend.path / "broken.yaml").write_text(block("yaml").replace("study: sleeps", "study: broken"))
    said = contend("validate", "broken.yaml")
    assert said.code == 2 and "the study 'broken' of the package toy-sleeps cannot be used" in said.err
    assert why in said.err and "uninstall the package" in said.err
    contend("validate", "sleeps.yaml").fine()
    assert '"sleeps"' in contend("validate", "--schema", "scenario").fine().out


class Edited:
    """Another study in the same package: the guide's, with one thing changed."""

    def __init__(self, contend: Outside, code: str, blocks: int = 2) -> None:
        lines = ["import sleeps", "from dataclasses import replace", "from contend.document import Layout"]
        lines += ["class Own(sleeps.SleepsStudy):", *(f"    {line}" for line in code.splitlines())]
        (contend.installed / "own.py").write_text("\n".join([*lines, "STUDY = Own()", ""]))
        contend.bring("own = own:STUDY")
        model = block("yaml").replace("study: sleeps", "study: own")
        (contend.path / "own.yaml").write_text(model.replace("blocks: 6", f"blocks: {blocks}"))
        named = (contend.installed / "sleeps.py").read_text()
        (contend.installed / "sleeps.py").write_text(
            named.replace('Literal["sleeps"]', 'Literal["sleeps", "own"]')
        )


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("()", "there is none"),
        ("(*cells, cells[-1])", "two are called '60 ms'"),
        ("tuple(replace(c, factors={**c.factors, 'asked_s': 1}) for c in cells)", "'asked_s' of '20 ms' is no text: 1"),
        (
            "tuple(replace(c, victim=replace(c.victim, label='sleep')) for c in cells)",
            "two parties are called 'sleep', and run different things",
        ),
        ("tuple(replace(c, baseline='') for c in cells)", "the control '20 ms (control)' has no baseline"),
        ("cells[1:]", "the baseline of '20 ms (control)' is '20 ms', which there is not"),
    ],
)  # fmt: skip
def test_cells_of_which_no_plan_can_be_made_are_refused_at_once(
    contend: Outside, made: str, why: str
) -> None:
    Edited(contend, f"def cells(self, scenario):\n    cells = super().cells(scenario)\n    return {made}")
    for said in (contend("validate", "own.yaml"), contend("run", "own.yaml")):
        assert said.code == 2 and "the study 'own' makes cells that cannot be compared" in said.err
        assert why in said.err and not contend.run_directories()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("ScenarioError", 2, "error: 60 ms is too long\n  hint: take less"),
        ("CannotHonour", 0, "  cannot run on this host: 60 ms is too long (hint: take less)"),
    ],
)
def test_validate_asks_the_studys_own_check(contend: Outside, error: str, code: int, said: str) -> None:
    Edited(
        contend,
        f"def check(self, scenario):\n    from contend.errors import {error}\n"
        f"    raise {error}('60 ms is too long', hint='take less')",
    )
    answer = contend("validate", "own.yaml")
    assert answer.code == code and said in (answer.err if code else answer.out)
    assert contend("run", "own.yaml").code == 2 and not contend.run_directories()


PACES = r"""
def cells(self, scenario):
    from contend.workloads.instance import resolve
    from contend.workloads.spec import Workload
    made = []
    for cell in super().cells(scenario):
        rate = {'from': 'stdout', 'pattern': r'(\d+)', 'unit': 'B/s', 'better': 'higher'}
        say = {'name': 'say', 'run': f"echo {20 if cell.id == '60 ms' else 10}", 'metrics': {'rate': rate}}
        work = resolve(Workload.model_validate({**say, 'dominant': 'cpu', 'trial': '10ms'}), {})
        pace = {'pace': cell.factors['variant']}
        made.append(replace(cell, victim=replace(cell.victim, instance=work), factors=pace))
    return tuple(made)
def layout(self, result): return replace(super().layout(result), column='pace', named=frozenset())
def read(self, scenario, run): return None
"""


def test_more_is_better_whatever_a_studys_factors_are_called(contend: Outside) -> None:
    Edited(contend, PACES, blocks=6)
    planned = contend("run", "own.yaml", "--dry-run").fine().out
    assert "60 ms" in planned and "alone" not in planned, "no party has a neighbour"
    said = contend("run", "own.yaml", timeout=120).fine().out
    assert "100 % more: better" in said
    run = contend.the_run()
    (cell,) = json.loads((run / "findings.json").read_text())["cells"]
    assert cell["estimate"]["value"] == pytest.approx(2) and cell["estimate"]["verdict"] == "higher"
    junit = contend("export", str(run), "--to", "junit", "-o", "a.xml", "--fail-above", "10%")
    assert "failure " not in (contend.path / "a.xml").read_text() and junit.fine()


@pytest.mark.parametrize("blocks", [2, 6])
def test_a_part_of_the_page_lies_beside_a_module_of_no_package(contend: Outside, blocks: int) -> None:
    Edited(
        contend,
        "def contents(self, analysis): return (('late', 'How late'),)\n"
        "def values(self, report): return {'late': report.analysis.result.late_s}\n"
        "def answer(self, *given): return ''",
        blocks,
    )
    part = "<section aria-labelledby='late'><h2 id='late'>How late</h2>{{ late|length }} sleeps</section>"
    (contend.installed / "section.html.j2").write_text(part)
    said = contend("run", "own.yaml", timeout=120).fine().out
    page = (contend.the_run() / "report.html").read_text()
    assert "3 sleeps" in page and "How late" in page
    for text in (said, page):
        assert ("No answer yet: 2 complete blocks are too few" in text) == (blocks == 2)
        assert "victim" not in text, "a study of its own has none"


def test_a_mistake_in_a_study_is_told_as_its_own(contend: Outside) -> None:
    Edited(contend, "def plots(self, report): return report.nothing_of_this_name")
    said = contend("run", "own.yaml", timeout=120)
    assert said.code == 1 and "in contend itself" not in said.err
    assert "a mistake in the study 'own' of the package toy-sleeps: AttributeError" in said.err


@pytest.mark.parametrize(
    "code",
    ["def layout(self, result): return None", "def plots(self, report): return [1]"],
)
def test_what_a_study_gave_is_not_called_contends_mistake_alone(contend: Outside, code: str) -> None:
    Edited(contend, code)
    said = contend("run", "own.yaml", timeout=120)
    assert said.code == 1
    assert "in contend itself, or in what the study 'sleeps' of the package toy-sleeps and" in said.err
    assert "the study 'own' of the package toy-sleeps gave it: AttributeError" in said.err


def test_a_mistake_in_a_studys_part_of_the_page_is_told_as_its_own(contend: Outside) -> None:
    Edited(contend, "def contents(self, analysis): return (('late', 'How late'),)")
    (contend.installed / "section.html.j2").write_text("<section>{{ nothing_of_this_name }}</section>")
    said = contend("run", "own.yaml", timeout=120)
    assert said.code == 1 and "in contend itself" not in said.err
    assert "of the package toy-sleeps: UndefinedError: 'nothing_of_this_name' is undefined" in said.err


def test_cells_with_different_baselines_never_share_a_row(contend: Outside) -> None:
    Edited(
        contend,
        "def cells(self, scenario):\n"
        "    slower = scenario.model_copy(update={'asked': (100_000_000, 300_000_000)})\n"
        "    return (*super().cells(scenario), *super().cells(slower))",
    )
    said = contend("run", "own.yaml", timeout=120).fine().out
    tables = said.split(" (ratio to ")[1:]
    levels = [float(re.findall(r"wall +([\d.]+) ms", table)[0]) for table in tables]
    assert [table.split(";")[0] for table in tables] == ["20 ms", "100 ms"]
    assert 20 < levels[0] < 100 < levels[1], "each against its own"
