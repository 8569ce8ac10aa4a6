"""A directory in any state gives an Entry, and says what is wrong with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contend.serve.files import members
from contend.serve.reading import FOREIGN, RUN, RUNNING, SAMPLE, UNENDED, Entry, read
from contend.store.ledger import Ledger
from support.made_many import copies


@pytest.fixture
def run(base: Path, tmp_path: Path) -> Path:
    """A finished run with its findings."""
    return copies(base, tmp_path / "runs", [1.0], environments={0: {"contend": "0.1.0", "cpus": 2}})[0]


def entry(run: Path) -> Entry:
    return read(run.parent, run.name)


def test_a_finished_run(run: Path) -> None:
    found = entry(run)
    assert (found.kind, found.whole, found.wrong) == (RUN, True, ())
    assert (found.title, found.study, found.blocks, found.state) == (
        "Who?",
        "interference",
        6,
        "planned blocks done",
    )
    assert found.answer.startswith("ffmpeg takes 2.0")
    assert found.began.startswith("2026-01-01T08:00")
    assert found.version == "0.1.0"
    assert len(found.cells) == 8
    assert "iops" in found.metrics
    assert found.size_bytes == sum(p.stat().st_size for p in run.iterdir())
    assert not found.has_report


@pytest.mark.parametrize("name", ["plan.json", "environment.json", "scenario.yaml", "findings.json"])
@pytest.mark.parametrize("how", ["torn", "gone", "empty", "another", "binary", "pipe", "link"])
def test_a_torn_directory_is_listed_with_what_is_wrong(run: Path, name: str, how: str) -> None:
    path = run / name
    data = path.read_bytes()
    path.unlink()
    if how in ("pipe", "link"):
        os.mkfifo(path) if how == "pipe" else path.symlink_to("/etc/passwd")
    elif how != "gone":
        path.write_bytes(
            {"torn": data[: len(data) // 3] + b"{", "empty": b"", "another": b"[1]", "binary": b"\xff\0\xfe"}[
                how
            ]
        )
    found = entry(run)
    assert found.kind == RUN
    assert "passwd" not in str(found.wrong)
    if (name, how) == ("findings.json", "gone"):
        assert found.wrong == ()
    elif (name, how) == ("findings.json", "torn"):
        assert found.answer, "the answer stands before what is torn"
    else:
        assert any(name in why for why in found.wrong), found.wrong
    assert found.whole == (name == "findings.json")


def test_a_run_still_running(run: Path) -> None:
    with Ledger(run / "ledger.ndjson") as ledger:
        ledger.event("run-start", run="again")
        found = entry(run)
        assert (found.state, found.unsettled, found.answer) == (RUNNING, True, "")
    found = entry(run)
    assert found.state == UNENDED, "its ledger has a beginning without an end, and nobody holds it"
    assert any("--resume" in why for why in found.wrong)


def test_a_run_without_findings_counts_its_blocks(run: Path) -> None:
    (run / "findings.json").unlink()
    rows = (run / "trials.ndjson").read_text().splitlines(keepends=True)
    kept = [r for r in rows if json.loads(r)["phase"] == "pilot" or json.loads(r)["block"] < 3]
    (run / "trials.ndjson").write_text("".join(kept) + '{"trial": 9')
    found = entry(run)
    assert found.blocks == 2
    assert any("amid a line" in why for why in found.wrong)


def test_metrics_are_known_without_a_workload(run: Path) -> None:
    """As of a run that was imported."""
    plan = json.loads((run / "plan.json").read_text()) | {"workloads": {}}
    (run / "plan.json").write_text(json.dumps(plan))
    assert entry(run).metrics in (("wall",), ("iops",))


def test_a_newer_schema(run: Path) -> None:
    plan = json.loads((run / "plan.json").read_text()) | {"schema_version": 99}
    (run / "plan.json").write_text(json.dumps(plan))
    found = entry(run)
    assert not found.whole
    assert any("newer contend" in why for why in found.wrong)


def test_what_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").write_bytes(b"x")
    found = read(tmp_path, "photos")
    assert (found.kind, found.whole) == (FOREIGN, False)
    assert found.wrong


def test_a_recording(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    told = {
        "schema_version": 1,
        "line": "contend sample -- true",
        "began_utc": "2026-01-02T00:00:00",
        "ended_utc": "x",
    }
    (tmp_path / "out/sample.json").write_text(json.dumps(told))
    (tmp_path / "out/environment.json").write_text(json.dumps({"contend": "0.1.0"}))
    found = read(tmp_path, "out")
    assert (found.kind, found.command, found.state, found.wrong) == (
        SAMPLE,
        "contend sample -- true",
        "ended",
        (),
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../runs", "x\0y"])
def test_a_name_that_leads_elsewhere_is_none(run: Path, name: str) -> None:
    with pytest.raises(OSError):
        read(run.parent, name)


def test_a_link_to_a_directory_is_not_followed(run: Path) -> None:
    link = run.with_name("link")
    link.symlink_to(run)
    with pytest.raises(OSError):
        read(run.parent, "link")


def test_half_characters_and_nul_do_not_come_through(run: Path) -> None:
    told = json.loads((run / "findings.json").read_text()) | {"answer": "a\ud800b\0c", "title": "\udfff"}
    (run / "findings.json").write_text(json.dumps(told))
    found = entry(run)
    found.answer.encode()
    found.title.encode()
    assert "\0" not in found.answer


@pytest.mark.parametrize("text", ['{"a": 1, "cells"', '{"a" 1}', "[]", '{"a": 1 "b": 2}', "", '{"a": 1,'])
def test_what_is_not_whole_up_to_there_is_no_beginning(text: str) -> None:
    with pytest.raises(ValueError):
        members(text, until="b")


def test_members_stop_where_they_are_told() -> None:
    whole = {"a": {"cells": 1}, "b": [1, {"x": "}"}], "cells": 3, "d": 4}
    assert members(json.dumps(whole, indent=1), until="cells") == {"a": {"cells": 1}, "b": [1, {"x": "}"}]}
    assert members(json.dumps(whole), until="nothing") == whole
