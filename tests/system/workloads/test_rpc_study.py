"""The workload of calls, by contend as a user starts it: figures of each role, and nothing of it left anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from contend.testbed.rabbit import bed, node
from contend.workloads.drivers.rpc.options import URL
from support.command_line import Home, rows, wait_for
from support.made_context import storms_run
from support.prerequisites import need
from support.rpc import queues

STUDY = """\
study: compare
workload: {workload}
parameters: {{library: native, payload: "1000", rate: 50}}
variants:
  - {{name: envelope}}
  - {{name: bare, parameters: {{library: bare}}}}
measure: {{target: null, blocks: 1, pilot: 0, trial: 1s, seed: 5}}
"""


def study(contend: Home, workload: str) -> str:
    path = contend.path / "study.yaml"
    path.write_text(STUDY.format(workload=workload))
    return str(path)


def test_a_run_tells_what_a_call_costs_each_role(contend: Home) -> None:
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    contend("run", study(contend, "rpc"), timeout=400).fine()
    run = contend.the_run()
    counted = [row for row in rows(run) if row["phase"] == "counted"]
    assert {row["cell"] for row in counted} == {"envelope", "envelope (control)", "bare"}
    for row in counted:
        metrics = {one["name"]: one["value"] for one in row["metrics"]}
        assert metrics["ends_cpu"] == pytest.approx(metrics["client_cpu"] + metrics["service_cpu"])
        assert metrics["broker_cpu"] > 0
        assert metrics["answered"] == 1
        assert metrics["wire"] > 2000
        kept = json.loads((run / "outputs" / f"{row['trial']:06d}" / "rpc.json").read_text())
        assert kept["broker"]["nodes"] == 1
        assert kept["open"]["rate_asked"] == 50
    # In a made-up storm: both ends of 20 calls, and the broker's own CPU time of the boots' 0.55 s.
    storms_run(run.parent, {"API": 0.5, "broker": 0.05})
    found = contend("context", str(run), "--json").fine().json()
    assert [share["how"] for share in found["shares"]] == ["carried over", "role"]
    assert found["shares"][1]["estimate"]["value"] == pytest.approx(0.05 / 0.55, rel=0.1)
    assert found["variants"][0]["variant"] == "bare"
    assert found["variants"][0]["effect"]["value"] < 0, "fewer promises cost less"
    assert 'id="context"' in (run / "report.html").read_text(encoding="utf-8")
    for path in run.rglob("*"):
        if path.is_file():
            assert b"rabbit://" not in path.read_bytes(), path


def test_a_broker_elsewhere_keeps_nothing_and_is_named_nowhere(contend: Home, rabbit: bed.Bed) -> None:
    contend("run", study(contend, "rpc-elsewhere"), env={URL: rabbit.url()}, timeout=400).fine()
    assert queues(rabbit) == []
    for path in contend.the_run().rglob("*"):
        if path.is_file():
            assert rabbit.password.encode() not in path.read_bytes(), path


def test_bad_days_are_told_before_the_first_trial(contend: Home, rabbit: bed.Bed) -> None:
    port = rabbit.ports[0]
    for url, said in (
        ("", "is empty"),
        (f"rabbit://contend:secret@127.0.0.1:{port}/", "refuses the user or the password"),
        (f"rabbit://contend:{rabbit.password}@127.0.0.1:{port}/none", "virtual host 'none'"),
        (f"rabbit://contend:{rabbit.password}@127.0.0.1:{port}/?ssl=1", "TLS with the broker"),
        ("rabbit://contend:secret@127.0.0.1:1/", "cannot connect"),
    ):
        answer = contend("run", study(contend, "rpc-elsewhere"), env={URL: url}, timeout=100).error(2, said)
        assert "secret" not in answer.out + answer.err
        assert rabbit.password not in answer.out + answer.err
    assert queues(rabbit) == []


def test_whatever_was_killed_is_destroyed(contend: Home) -> None:
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    running = contend.start(
        "run", study(contend, "rpc"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    found: list[Path] = []

    def measuring() -> bool:
        found[:] = contend.path.glob("**/rabbit-1/bed.json")
        return bool(found) and any(contend.path.glob("**/trials/*/payloads.json"))

    wait_for(measuring, "the first trial", 200)
    up = bed.load(found[0].parent)
    assert up is not None
    assert up.servers()
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    contend("destroy", str(contend.the_run()), timeout=100).fine()
    assert not bed.pids(up.directory)
