"""Run directories that earlier versions made are read by every verb.

tests/data/old-runs/COMMIT.tar.xz holds what that commit wrote: `ab` and `sample-real` were measured by it, the others
made by its own test helpers, with its own plan and store. A set is never changed; a new one is added when a format is.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from contend.serve.index import Filter, Index
from contend.serve.pages import Pages
from contend.store.directory import RunDirectory
from support.damaged import tried

SETS = sorted((Path(__file__).parents[2] / "data/old-runs").glob("*.tar.xz"))
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


def test_serve_shows_them(runs: Path) -> None:
    index = Index(runs)
    try:
        entries = index.page(Filter()).entries
        assert {entry.name for entry in entries} == {run.name for run in runs.iterdir()}
        pages = Pages(index)
        for entry in entries:
            # What was killed, or never ended, is said; nothing else is wrong with any.
            assert not [why for why in entry.wrong if "no word of its end" not in why and "ledger" not in why]
            assert pages.answer(["run", entry.name], {}).status == 200
        whole = [entry.name for entry in entries if entry.whole]
        assert whole
        for name in whole:
            told = pages.answer(["compare"], {"first": [name], "second": [name]})
            assert told.status == 200 or b"several hosts" in told.body or b"no cell" in told.body, name
        assert pages.answer([""], {}).status == pages.answer(["trend"], {}).status == 200
    finally:
        index.close()


def test_verbs_of_traces_and_of_storms_read_them(runs: Path) -> None:
    """Where a run has what the verb is about; of another one the verb says what it lacks."""
    problems = []
    for run in sorted(runs.iterdir()):
        storm = run.name == "storm"
        asked = {
            ("hunt", str(run)): {2},
            ("whatif", str(run), "--jobs", "40"): {0, 5} if storm else {2},
            ("context", str(run), "--of", str(runs / "storm")): {0, 5} if run.name == "rpc" else {2},
        }
        for words, allowed in asked.items():
            end = tried(list(words))
            if end.wrong or end.code not in allowed or "damaged" in end.err:
                problems.append(
                    f"{runs.name}/{run.name}: contend {words[0]}: {end.code} {end.wrong} {end.err[-400:]}"
                )
    assert not problems, "\n".join(problems)


def test_resume_goes_on_with_them_or_says_why_not(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of commands that take 10 ms. Where a workload's file has changed since, the plan cannot be made again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for run in sorted(run for run in runs.iterdir() if run.name in ("ab", "imported", "sample-real")):
        directory = RunDirectory(run)
        before = len(directory.rows())
        end = tried(["run", "--resume", str(run), "--budget", "1s"])
        assert not end.wrong and "damaged" not in end.err, end
        assert end.code in ({0, 2, 3} if run.name == "ab" else {2}), end
        assert len(directory.rows()) >= before


def test_every_set_is_there() -> None:
    """A set that is lost is a promise that is lost."""
    assert len(SETS) >= 5
