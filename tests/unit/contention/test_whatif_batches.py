"""Forecasts of larger storms from a run's smaller ones: told where they may be, refused where they may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contend.contention.alibi.verdict import CellAlibi
from contend.contention.whatif import batches
from contend.contention.whatif.verification import verify_times
from contend.errors import BadInput

SIZES = (1, 2, 5)


def alibi(n: int, verdict: str) -> CellAlibi:
    return CellAlibi(f"n={n}", {"n": str(n)}, verdict, "all 2 CPUs", 3, 3, f"what was seen at {n}")


def made(place: Path, *, cpu_s: float = 0.01, rate: float = 0.0, bend: float = 0.0, cpus: int = 2) -> Path:
    """A run of three storms of each size: 0.4 s, and 0.2 s a server more."""
    run = place / "boot-storm-1"
    run.mkdir()
    factors = {n: {"n": str(n), "network": "none", "variant": f"n={n}"} for n in SIZES}
    cells = [{"id": f"n={n}", "factors": factors[n], "baseline": "", "control": False} for n in SIZES]
    plan = {
        "schema_version": 1,
        "seed": 1,
        "design": "pairs",
        "cells": cells,
        "workloads": {"boot-storm": {}},
        "trials": [],
    }
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "environment.json").write_text(json.dumps({"schema_version": 1, "cpus": cpus}))
    (run / "scenario.yaml").write_text("study: storm\n")
    (run / "ledger.ndjson").write_text("")
    rows: list[dict[str, Any]] = []
    for number, n in enumerate(n for _ in range(3) for n in SIZES):
        noise = 1 + 0.01 * (number // 3 - 1)
        makespan = (0.4 + 0.2 * n + bend * n * n) * noise
        document = {
            "rate": rate,
            "n": n,
            "served": n,
            "failed": 0,
            "disagree": 0,
            "problems": {},
            "counts": {},
            "phases_s": {},
            "servers": [],
            "cpu_s": {"API": cpu_s * n},
            "median_s": 0.6 * makespan,
            "p90_s": 0.9 * makespan,
            "max_s": makespan,
            "min_s": 0.1 * makespan,
            "accepted_s": 0.2 * makespan,
            "delete_median_s": 0.1,
            "delete_makespan_s": 0.2,
            "width_s": 0.01,
            "client_cpu_s": 0.01,
            "asking_share": 0.1,
            "makespan_s": makespan,
        }
        out = run / "outputs" / f"{number:06d}"
        out.mkdir(parents=True)
        (out / batches.FILE).write_text(json.dumps(document))
        metric = {
            "name": "makespan",
            "value": makespan,
            "unit": "s",
            "better": "lower",
            "loop": "",
            "primary": True,
        }
        rows.append(
            {"trial": number, "block": number // 3, "phase": "counted", "status": "ok", "cell": f"n={n}"}
            | {
                "factors": factors[n],
                "started_ns": 0,
                "ended_ns": 1,
                "metrics": [metric],
                "evidence": [],
                "flags": [],
            }
        )
    (run / "trials.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


@pytest.fixture
def hardware(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    verdicts = dict.fromkeys(SIZES, "idle")
    monkeypatch.setattr(batches, "_alibis", lambda run: [alibi(n, of) for n, of in verdicts.items()])
    return verdicts


def test_a_straight_line_on_idle_hardware_is_followed(tmp_path: Path, hardware: dict[int, str]) -> None:
    run = made(tmp_path)
    assert batches.has_storms(run)
    told = batches.predict(run, 20)
    assert told.gate.passed, told.gate.reason
    assert (told.method, told.jobs, told.regime.kind) == ("batch law", 5, "blocked")
    makespan = told.predicted["makespan_ns"]
    assert makespan.low is not None and makespan.high is not None
    assert makespan.low < 4.4e9 < makespan.high
    assert makespan.value == pytest.approx(4.4e9, rel=0.05)
    # And verified by storms of that size.
    took = [batches.times({k: 4.4 * part for k, part in SHARES.items()}) for _ in range(2)]
    assert verify_times(told.to_json(), ("after",), took).inside is True
    slow = [batches.times({k: 9.0 * part for k, part in SHARES.items()})]
    assert verify_times(told.to_json(), ("after",), slow).inside is False


SHARES = {"median_s": 0.6, "p90_s": 0.9, "max_s": 1.0, "makespan_s": 1.0}


def test_hardware_at_its_limit_refuses(tmp_path: Path, hardware: dict[int, str]) -> None:
    hardware[5] = "cpu"
    told = batches.predict(made(tmp_path), 20)
    assert not told.gate.passed
    assert "the CPU was the limit (all 2 CPUs) in n=5" in str(told.gate.reason)
    assert told.regime.refused
    assert "n = 5: what was seen at 5" in told.notes


def test_processors_that_would_be_full_refuse(tmp_path: Path, hardware: dict[int, str]) -> None:
    # 20 boots at 0.35 CPU-s are 7 of the 8.8 that two processors have in 4.4 s; with eight they are not much.
    reason = str(batches.predict(made(tmp_path, cpu_s=0.35), 20).gate.reason)
    assert "20 boots cost the cloud's services 7.0 CPU-s (0.35 each), and 2 processors have 8.8" in reason
    roomy = tmp_path / "roomy"
    roomy.mkdir()
    assert batches.predict(made(roomy, cpu_s=0.35, cpus=8), 20).gate.passed


def test_a_curve_is_no_line(tmp_path: Path, hardware: dict[int, str]) -> None:
    assert "not a straight line" in str(batches.predict(made(tmp_path, bend=0.2), 20).gate.reason)


def test_too_far_is_refused_and_has_no_interval(tmp_path: Path, hardware: dict[int, str]) -> None:
    told = batches.predict(made(tmp_path), 41)
    assert "beyond 8 ×" in str(told.gate.reason)
    assert told.predicted["median_ns"].low is None


def test_servers_sent_at_a_rate_are_no_storm(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="sent at a rate"):
        batches.predict(made(tmp_path, rate=2.0), 20)


def test_what_is_not_on_record_is_said(tmp_path: Path, hardware: dict[int, str]) -> None:
    hardware[1] = "unknown"
    told = batches.predict(made(tmp_path), 20)
    assert told.gate.passed
    assert told.regime.kind == "not known"
