"""The index: what it lists, what it reads, and that it reads it once."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contend.analysis.comparisons import tabulate
from contend.serve.index import PAGE, Filter, Index
from contend.serve.reading import RUNNING, UNENDED
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from contend.store.rows import latest
from support.made_many import copies

FILES = {
    "plan.json",
    "environment.json",
    "scenario.yaml",
    "findings.json",
    "ledger.ndjson",
    "trials.ndjson",
    "report.html",
}
_counting: list[Counter[str]] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _counting:
        name = Path(os.fsdecode(arguments[0])).name if isinstance(arguments[0], str | bytes | Path) else ""
        if name in FILES:
            _counting[0][name] += 1


sys.addaudithook(_hook)


@contextmanager
def opened() -> Iterator[Counter[str]]:
    """Counts of the files of runs that Python opens meanwhile, whoever does."""
    _counting.append(found := Counter())
    yield found
    _counting.clear()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def names(index: Index, **asked: str) -> list[str]:
    return [e.name for e in index.page(Filter(**asked)).entries]  # type: ignore[arg-type]


def test_what_does_not_change_is_read_once(base: Path, place: Path) -> None:
    runs = copies(base, place, [1.0] * 200)
    index = Index(place)
    with opened() as first:
        listing = index.page(Filter())
    assert (listing.matches, listing.total, len(listing.entries)) == (200, 200, PAGE)
    assert set(first.values()) == {200}, f"each file once: {first}"
    assert set(first) == FILES - {"report.html"}
    with opened() as second:
        index.page(Filter(text="who"))
        index.page(Filter(page=2))
        index.groups()
    assert second == {}, "nothing has changed"
    os.utime(runs[7] / "plan.json")
    shutil.copytree(runs[0], place / "late")
    with opened() as third:
        assert index.page(Filter()).total == 201
    assert max(third.values()) == 2, "the one that changed, and the one that is new"
    shutil.rmtree(runs[3])
    with opened() as fourth:
        assert index.page(Filter()).total == 200
    assert fourth == {}


def test_a_trend_reads_rows_once(base: Path, place: Path) -> None:
    runs = copies(base, place, [1.0] * 30)
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    with opened() as first:
        found = index.sessions(entry.question, entry.host, "ffmpeg|none", "wall")
    assert len(found.levels) == 30
    assert first == {"trials.ndjson": 30}
    with opened() as second:
        index.sessions(entry.question, entry.host, "fio|none", "iops")
    assert second == {}
    with (runs[0] / "trials.ndjson").open("a") as file:
        file.write('{"trial": 1')
    with opened() as third:
        assert len(index.sessions(entry.question, entry.host, "fio|none", "iops").levels) == 30
    assert third["trials.ndjson"] == 2, "the list's look at its end, and its rows"


def test_a_run_that_was_copied_counts_once(base: Path, place: Path) -> None:
    runs = copies(base, place, [1.0] * 4)
    for name in ("a copy", "z copy"):
        shutil.copytree(runs[1], place / name)
    index = Index(place)
    newest = index.page(Filter()).entries[0]
    found = index.sessions(newest.question, newest.host, "ffmpeg|none", "wall")
    assert [level.entry.name for level in found.levels] == ["run-0000", "a copy", "run-0002", "run-0003"]
    [(_, count)] = index.groups()
    assert count == 4
    # A page is that of the copy which is looked at, with the runs before it.
    for name in ("a copy", "run-0001", "z copy"):
        [entry] = [one for one in index.page(Filter()).entries if one.name == name]
        assert {len(one.values) for one in index.recent(entry)} == {2}


def test_runs_that_tell_no_time_are_different_runs(base: Path, place: Path) -> None:
    for run in copies(base, place, [1.0] * 3):
        (run / "ledger.ndjson").write_text("")
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    assert entry.began == ""
    assert len(index.sessions(entry.question, entry.host, "ffmpeg|none", "wall").levels) == 3


def test_levels_are_those_of_the_report(base: Path, place: Path) -> None:
    copies(base, place, [1.0, 1.5])
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    for cell, metric in index.figures(entry):
        levels = index.sessions(entry.question, entry.host, cell, metric).levels
        for level in levels:
            rows = RunDirectory(place / level.entry.name).rows()
            series = tabulate(r for r in latest(rows) if r["phase"] == "counted")[cell][metric]
            assert level.estimate == series.level(0.95).estimate
            assert level.flagged == len(series.flagged)


def test_filters(base: Path, place: Path) -> None:
    copies(base, place, [1.0] * 4, environments={2: {"cpu": "another", "cpus": 64}})
    (place / "holidays").mkdir()
    index = Index(place)
    every = index.page(Filter())
    assert [e.name for e in every.entries] == ["run-0003", "run-0002", "run-0001", "run-0000", "holidays"]
    hosts = dict(every.choices["host"])
    other = next(key for key, label in hosts.items() if "another" in label)
    assert names(index, host=other) == ["run-0003", "run-0002"]
    assert names(index, since="2026-01-02", until="2026-01-03") == ["run-0002", "run-0001"]
    assert names(index, metric="iops", text="WHO? 0001") == ["run-0001"]
    assert names(index, metric="nothing") == []
    assert names(index, text="holidays") == ["holidays"]
    assert names(index, study="interference", order="title")[0] == "run-0003"
    assert names(index, text="%' or 1=1 --") == []
    assert len(names(index, scenario=every.choices["scenario"][0][0])) == 4


def test_runs_of_another_question_are_no_sessions(base: Path, place: Path) -> None:
    runs = copies(base, place, [1.0] * 3)
    text = (runs[1] / "scenario.yaml").read_text()
    (runs[1] / "scenario.yaml").write_text(text.replace("ffmpeg", "nginx"))
    (runs[2] / "scenario.yaml").write_text(text.replace("Who?", "Who else?").replace("2%", "3%"))
    index = Index(place)
    entry = index.entry("run-0000")
    assert entry is not None
    assert [e.name for e in index.alike(entry)] == ["run-0000", "run-0002"], (
        "the title and the target are no question"
    )


def test_one_bad_directory_takes_none_with_it(base: Path, place: Path) -> None:
    runs = copies(base, place, [1.0] * 3)
    for name in ("plan.json", "environment.json", "scenario.yaml", "trials.ndjson", "ledger.ndjson"):
        torn = place / f"torn-{name}"
        shutil.copytree(runs[0], torn)
        (torn / name).write_bytes(b'{"schema_version": 1, "cells": 7,')
        shutil.copytree(runs[0], place / f"odd-{name}")
        (place / f"odd-{name}" / name).write_text(
            '{"cells": [{}], "design": "x", "workloads": [], "metrics": null}\n'
        )
    (place / "link").symlink_to("/etc")
    (place / "a file").write_text("")
    (place / ".hidden").mkdir()
    (place / os.fsdecode(b"\xff\xfe")).mkdir()
    index = Index(place)
    listing = index.page(Filter())
    assert listing.total == 14
    assert "cannot be shown" in listing.wrong
    assert all(
        e.wrong or e.name.startswith(("run-", "odd-environment", "odd-trials", "odd-ledger"))
        for e in listing.entries
    )
    link = index.entry("link")
    assert link is not None
    assert "link" in link.wrong[0]
    entry = index.entry("run-0000")
    assert entry is not None
    found = index.sessions(entry.question, entry.host, "ffmpeg|none", "wall")
    first, *others = (level.entry.name for level in found.levels)
    assert first.startswith("odd-") and {*others} >= {"run-0001", "run-0002"}, (
        "a copy of run-0000 is that run"
    )
    assert {e.name for e, _ in found.unread} >= {"odd-trials.ndjson"}


def test_a_run_that_ends_without_a_word_is_seen(base: Path, place: Path) -> None:
    run = copies(base, place, [1.0])[0]
    index = Index(place)
    with Ledger(run / "ledger.ndjson") as ledger:
        ledger.event("run-start", run="again")
        assert index.page(Filter()).entries[0].state == RUNNING
    assert index.page(Filter()).entries[0].state == UNENDED, "no file has changed since"


def test_a_place_that_goes_away_is_empty(base: Path, place: Path) -> None:
    copies(base, place, [1.0])
    index = Index(place)
    assert index.page(Filter()).total == 1
    shutil.rmtree(place)
    gone = index.page(Filter())
    assert (gone.total, gone.matches) == (0, 0)
    assert "cannot list" in gone.wrong
    copies(base, place, [1.0, 1.0])
    assert index.page(Filter()).total == 2


def test_nothing_is_written(base: Path, place: Path) -> None:
    run = copies(base, place, [1.0] * 2)[0]
    with (run / "trials.ndjson").open("a") as file:
        file.write('{"torn": ')
    before = {p: (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in place.rglob("*")}
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    index.sessions(entry.question, entry.host, "ffmpeg|none", "wall")
    assert {
        p: (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in place.rglob("*")
    } == before
    assert json.loads((run / "plan.json").read_text())["cells"]


def test_rows_with_odd_names_take_no_others_with_them(base: Path, place: Path) -> None:
    runs = copies(base, place, [1.0] * 4)
    for run, odd in zip(runs, ('"a\\ud800\\u0000b"', "[1]", "17"), strict=False):
        text = (run / "trials.ndjson").read_text().replace('"wall", "value"', f'{odd}, "value"')
        (run / "trials.ndjson").write_text(text)
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    found = index.sessions(entry.question, entry.host, "ffmpeg|none", "wall")
    assert [level.entry.name for level in found.levels] == ["run-0003"]
    assert [e.name for e, _ in found.unread] == ["run-0000", "run-0001", "run-0002"]


def test_a_figure_that_is_none_takes_no_others_with_it(base: Path, place: Path) -> None:
    """JSON as Python writes it has a NaN, which no interval and no database takes."""
    runs = copies(base, place, [1.0] * 3)
    text = (runs[0] / "trials.ndjson").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        row["metrics"] = [m | {"value": math.nan} for m in row["metrics"]]
    (runs[0] / "trials.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    found = index.sessions(entry.question, entry.host, "ffmpeg|none", "wall")
    assert [level.entry.name for level in found.levels] == ["run-0001", "run-0002"]
    assert [e.name for e, _ in found.unread] == ["run-0000"]
