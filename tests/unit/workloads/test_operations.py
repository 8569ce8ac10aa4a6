"""Clients of a Cassandra node: what two tools say of the same operations, and operations that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contend.workloads.generators import operations
from support.generators import parameters_file

LATTE: dict[str, Any] = {
    "conf": {},
    "percentiles": [0.0, 50.0, 99.0, 100.0],
    "result": {
        "cycle_count": 1000,
        "error_count": 0,
        "elapsed_time_s": 0.5,
        "cycle_latency": {
            "mean": {"value": 20.0},
            "percentiles": [{"value": 1.0}, {"value": 15.0}, {"value": 60.0}, {"value": 80.0}],
        },
    },
}
STRESS = """
Results:
Op rate                   :    2,000 op/s  [READ: 1,500 op/s, WRITE: 500 op/s]
Partition rate            :    2,000 pk/s  [READ: 1,500 pk/s, WRITE: 500 pk/s]
Latency mean              :   20.0 ms [READ: 21.0 ms, WRITE: 17.0 ms]
Latency median            :   15.0 ms [READ: 16.0 ms, WRITE: 12.0 ms]
Latency 95th percentile   :   40.0 ms [READ: 41.0 ms, WRITE: 37.0 ms]
Latency 99th percentile   :   60.0 ms [READ: 61.0 ms, WRITE: 57.0 ms]
Latency 99.9th percentile :   70.0 ms [READ: 71.0 ms, WRITE: 67.0 ms]
Latency max               :   80.0 ms [READ: 81.0 ms, WRITE: 77.0 ms]
Total partitions          :      1,000 [READ: 750, WRITE: 250]
Total errors              :          {errors} [READ: {errors}, WRITE: 0]
Total operation time      : 00:00:00
"""
FIGURES = {"mean": 0.02, "p50": 0.015, "p99": 0.06, "max": 0.08}


def program(path: Path, text: str) -> None:
    """A stand-in that notes its arguments beside itself and then does what `text` says."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$*" >>"{path}.calls"\n{text}\n')
    path.chmod(0o755)


def latte(work: Path, told: dict[str, Any]) -> Path:
    (work / "told.json").write_text(json.dumps(told))
    path = work / "bin" / "latte"
    last = f'while [ $# -gt 1 ]; do [ "$1" != -o ] || cp "{work}/told.json" "$2"; shift; done'
    program(path, f'[ "$1" != --version ] || {{ echo "Latency Tester 0.29.0"; exit; }}\n{last}')
    return path


def main(tmp_path: Path, what: str, loader: str) -> int:
    file = parameters_file(
        "cassandra",
        tmp_path,
        tmp_path,
        9042,
        loader=loader,
        rows=100,
        threads=10,
        operations=1000,
        warmup=1000,
    )
    return operations.main([what, file])


def test_latte_makes_the_rows_and_tells_of_the_measured_operations(tmp_path: Path) -> None:
    program_ = latte(tmp_path, LATTE)
    assert main(tmp_path, "load", "latte") == 0
    assert not (tmp_path / "operations.json").exists()
    assert main(tmp_path, "measure", "latte") == 0
    told = json.loads((tmp_path / "operations.json").read_text())
    assert told == {
        "schema_version": 1,
        "loader": "latte 0.29.0",
        "operations": 1000,
        "failed": 0,
        "response_time_s": FIGURES,
        "took_s": 0.5,
        "throughput_per_s": 2000.0,
    }
    calls = Path(f"{program_}.calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["schema", "load", "run", "--version", "run", "--version"]
    assert "-p 10 -d 1000 --retries 0 -P rows=100 -P writes=25" in calls[4]
    assert calls[4].endswith("operations.rn 127.0.0.1:9042")


def test_cassandra_stress_tells_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stress = tmp_path / "bin" / "cassandra-stress"
    program(stress, f"cat <<'E'\n{STRESS.format(errors=0)}E")
    monkeypatch.setenv("PATH", f"{stress.parent}:/usr/bin:/bin")
    assert main(tmp_path, "load", "cassandra-stress") == 0
    assert main(tmp_path, "measure", "cassandra-stress") == 0
    told = json.loads((tmp_path / "operations.json").read_text())
    assert (told["loader"], told["response_time_s"]) == ("cassandra-stress", FIGURES)
    assert told["throughput_per_s"] == 2000.0
    first, _, last = Path(f"{stress}.calls").read_text().splitlines()
    assert first.startswith("write n=100 ")
    assert last.startswith("mixed ratio(write=25,read=75) n=1000 cl=ONE no-warmup -pop dist=UNIFORM(1..100) ")
    assert last.endswith("-node 127.0.0.1 -port native=9042 -rate threads=10")


@pytest.mark.parametrize("change", [{"error_count": 3}, {"cycle_count": 997}])
def test_an_operation_that_fails_fails_the_whole(
    change: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latte(tmp_path, LATTE | {"result": LATTE["result"] | change})
    assert main(tmp_path, "measure", "latte") == 1
    assert "3 of 1000 operations failed (latte 0.29.0)" in capsys.readouterr().err


def test_what_cassandra_stress_leaves_out_or_fails_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stress = tmp_path / "bin" / "cassandra-stress"
    monkeypatch.setenv("PATH", f"{stress.parent}:/usr/bin:/bin")
    program(stress, f"cat <<'E'\n{STRESS.format(errors=2)}E")
    assert main(tmp_path, "measure", "cassandra-stress") == 1
    assert "2 of 1000 operations failed" in capsys.readouterr().err
    program(stress, "echo Results:")
    assert main(tmp_path, "measure", "cassandra-stress") == 1
    assert "cassandra-stress does not tell its 'Total errors'" in capsys.readouterr().err


def test_a_report_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latte(tmp_path, {"conf": {}})
    assert main(tmp_path, "measure", "latte") == 1
    assert "latte's report cannot be read" in capsys.readouterr().err
