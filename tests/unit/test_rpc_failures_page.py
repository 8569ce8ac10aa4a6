"""The page of the campaign of faults is what its data say, and a trial that is repeated replaces the former."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import rpc_failures
from support.results import RESULTS


def test_the_page_is_made_of_its_data() -> None:
    document = json.loads((RESULTS / "rpc-failures.json").read_text(encoding="utf-8"))
    assert rpc_failures.page(document) == (RESULTS / "rpc-failures.md").read_text(encoding="utf-8")
    assert document["lost"] == rpc_failures.lost(document["trials"])
    assert document["n"] == len(document["trials"])


def told(lost: int) -> dict[str, Any]:
    counts = {name: {"count": 0} for name in rpc_failures.COUNTS}
    counts |= {"lost": {"count": lost}, "answered": {"count": 900 - lost}}
    rest = {
        "rate": 20.0,
        "timeout_s": 10.0,
        "in_time_s": 1.0,
        "broker": {},
        "reconnects": 1,
        "last_error": "",
    }
    spans = {"recovery_s": {"recovered": True, "low": 1.0, "high": 2.0}, "fault_s": {"began": [5, 5]}}
    return {"library": "oslo", "fault": {"kind": "kill"}, "sent": 900, **counts, **rest, **spans}


def test_trials_of_one_commit_are_kept_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rpc-failures.json"
    monkeypatch.setenv("CONTEND_TEST_COMMIT", "a")
    for seed, lost in ((0, 5), (1, 0), (0, 7)):
        rpc_failures.keep(told(lost), 1, seed, (0.1, 0.2), tmp_path)
    document = json.loads(file.read_text())
    assert [(trial["seed"], trial["lost"]) for trial in document["trials"]] == [(0, 7), (1, 0)]
    (row,) = document["lost"]
    assert (row["count"], row["of"], row["trials"], row["with_losses"]) == (7, 1800, 2, 1)
    assert row["low"] < 7 / 1800 < row["high"]
    assert not document["disturbed"]
    page = (tmp_path / "rpc-failures.md").read_text()
    assert "oslo.messaging lost 7 of 1800 calls, in 1 of 2 trials." in page
    monkeypatch.setenv("CONTEND_TEST_COMMIT", "b")
    rpc_failures.keep(told(0), 1, 0, (999.0, 0.2), tmp_path)
    document = json.loads(file.read_text())
    assert (document["n"], document["disturbed"]) == (1, True)
