"""Trials of the campaign of faults are kept together while they are of one commit; a repeated one replaces the former."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from results.record import recording
from support import rpc_failures


def told(lost: int) -> dict[str, Any]:
    counts: dict[str, Any] = {name: {"count": 0} for name in rpc_failures.COUNTS}
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
    monkeypatch.setenv("CONTEND_TEST_COMMIT", "a")
    with recording("pytest"):
        for seed, lost in ((0, 5), (1, 0), (0, 7)):
            document = rpc_failures.keep(told(lost), 1, seed, tmp_path)
    assert [(trial["seed"], trial["lost"]) for trial in document["trials"]] == [(0, 7), (1, 0)]
    page = (tmp_path / "rpc-failures.md").read_text(encoding="utf-8")
    assert "oslo.messaging lost 7 of 1800 calls, in 1 of 2 trials." in page
    monkeypatch.setenv("CONTEND_TEST_COMMIT", "b")
    with recording("pytest"):
        document = rpc_failures.keep(told(0), 1, 0, tmp_path)
    assert len(document["trials"]) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rpc-failures.json", "rpc-failures.md"]
