"""Programs of the zoo: each mechanism alone does a plain storm, and one with each of its edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.prerequisites import need
from zoo import campaign
from zoo.draws import draw
from zoo.mechanisms import mechanisms
from zoo.truth import ProgramFailed, storms

pytestmark = pytest.mark.system


@pytest.mark.parametrize("name", mechanisms())
def test_a_mechanism_alone_storms_plainly_and_with_each_edit(name: str, tmp_path: Path) -> None:
    manifest = draw(1, "development", only=[name])
    absent = campaign.missing(manifest.libraries)
    need(not absent, f"not installed: {', '.join(absent)}")
    edits = [change.switch for change in manifest.changes]
    assert edits
    with campaign.broker(manifest.libraries, tmp_path / "rabbit"):
        first, *edited, last = storms(manifest.write(tmp_path), ["plain", *edits, "plain"])
    assert 0.03e9 < min(first.makespan, last.makespan) < 1e9
    assert set(last.lost) <= {culprit.lost for culprit in manifest.culprits}
    assert len(first.jobs) == len(last.jobs) == manifest.jobs
    for switch, storm in zip(edits, edited, strict=True):
        kind, _, number = switch.partition(":=")
        assert len(storm.jobs) == (int(number) if kind == "jobs" else manifest.jobs)


def test_a_program_that_fails_is_named_with_what_it_printed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('no database')", encoding="utf-8")
    with pytest.raises(ProgramFailed, match="exit code 1: no database"):
        storms(program, ["plain"])
