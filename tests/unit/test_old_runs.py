"""Run directories that earlier versions made are read by every verb.

tests/data/old-runs/COMMIT.tar.xz holds what that commit wrote: `ab` and `sample-real` were measured by it, the others
made by its own test helpers, with its own plan and store. A set is never changed; a new one is added when a format is.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from support.damaged import tried

SETS = sorted((Path(__file__).parents[1] / "data/old-runs").glob("*.tar.xz"))
RECORDINGS = {"sample", "sample-real"}
# What these runs themselves do not allow: one on several hosts, and some too short for a single block.
ALLOWED = {("compare", "fleet"): {2}, ("compare", "ab"): {0, 2}, ("advise", "forecast"): {0, 5}}


@pytest.fixture(scope="module", params=SETS, ids=lambda path: path.name.split(".")[0])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("old")
    with tarfile.open(request.param) as archive:
        archive.extractall(place, filter="data")
    return next(place.iterdir())


def test_every_verb_reads_them(runs: Path) -> None:
    found = sorted(runs.iterdir())
    assert len(found) >= 1
    problems = []
    for run in found:
        recording = run.name in RECORDINGS
        verbs = [
            ["report", str(run), "--json"],
            ["report", str(run)],
            ["sql", str(run), f"select count(*) from {'host' if recording else 'metrics'}"],
            ["export", str(run), "--to", "csv"],
            ["export", str(run), "--to", "openmetrics"],
            *([] if recording else [["compare", str(run), str(run)], ["advise", str(run), "--json"]]),
            ["destroy", str(run)],
        ]
        for words in verbs:
            end = tried(words)
            allowed = ALLOWED.get((words[0], run.name), {0})
            if end.wrong or end.code not in allowed or "damaged:" in end.err:
                problems.append(
                    f"{runs.name}/{run.name}: contend {words[0]}: {end.code} {end.wrong} {end.err[-400:]}"
                )
        if not (run / "report.html").is_file():
            problems.append(f"{runs.name}/{run.name}: no page")
    assert not problems, "\n".join(problems)


def test_every_set_is_there() -> None:
    """A set that is lost is a promise that is lost."""
    assert len(SETS) >= 5
