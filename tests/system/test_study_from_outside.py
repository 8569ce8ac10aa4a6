"""A study that another package brings by an entry point, from its file to the terminal, JSON, page, export and compare."""

from __future__ import annotations

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

GUIDE = (Path(__file__).parents[2] / "docs/guides/write-a-study.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The guide's first block in a language: the guide is what is run here."""
    found = re.search(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


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
    contend("validate", "sleeps.yaml").fine()
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
    assert json.loads(contend("report", str(run), "--json").fine().out) == document
    page = (run / "report.html").read_text()
    assert "How late is a sleep?" in page and "is the latest" in page
    contend("export", str(run), "--to", "csv", "-o", "cells.csv").fine()
    assert "60 ms" in (contend.path / "cells.csv").read_text()
    again = contend("compare", str(run), str(run), "--json").fine()
    assert {cell["factors"]["variant"] for cell in json.loads(again.out)["cells"]} >= {"20 ms", "60 ms"}


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
            "`result_type` is no class below contend.shape.Shape",
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
