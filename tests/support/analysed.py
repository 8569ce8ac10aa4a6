"""Analyses of made runs, with each command that a finding offers read as the command line would read it."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

from contend.advice.finding import Finding
from contend.analysis.analyse import analyse as _analyse
from contend.cli import own_command
from contend.cli.run_ import command
from contend.document import Analysis
from contend.engine.plan import make_plan
from contend.store.directory import RunDirectory
from contend.studies.model import Scenario
from contend.studies.registry import study_of
from contend.studies.scenarios import load, to_yaml


def analyse(run: RunDirectory, scenario: Scenario, **options: Any) -> Analysis:
    """`contend.analysis.analyse.analyse`, of whose findings every command can be pasted."""
    found = _analyse(run, scenario, **options)
    for finding in found.findings:
        can_be_pasted(finding, scenario)
    return found


def can_be_pasted(finding: Finding, scenario: Scenario) -> Scenario | None:
    """The scenario that its command would run; None where it has none, or one of another verb. Raises ContendError."""
    words = shlex.split(finding.verify)
    if words[:2] != ["contend", "run"]:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mine.yaml"
        file.write_text(to_yaml(scenario), encoding="utf-8")
        # Of a run that recorded no command, or one of a file that was never there.
        words = [str(file) if word in ("SCENARIO", "mine.yaml") else word for word in words]
        with command.make_context("run", words[2:]) as context:
            given = context.params
        settings: tuple[str, ...] = given["settings"]
        if given["own"]:
            of_it = own_command.settings(given["scenario"], given["own"], given["beside"], given["metrics"])
            settings = (*of_it, *settings)
        asked = load(given["scenario"], settings)
    if study_of(asked).runs:
        make_plan(asked, 1)
    return asked
