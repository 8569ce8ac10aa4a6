"""A run that is ended amid a fault or a call leaves nothing, neither here nor on a broker of others."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from contend.platforms import procfs
from contend.testbed.rabbit import bed, node
from contend.workloads.drivers.rpc.options import URL
from support.command_line import Home, wait_for
from support.prerequisites import need
from support.rpc import queues

STUDY = """\
study: compare
workload: rpc-failures
parameters: {library: native, payload: "1000", before: 1s, lasts: 50s}
variants:
  - {name: stop, parameters: {fault: stop}}
  - {name: slow, parameters: {fault: slow}}
measure: {target: null, blocks: 1, pilot: 0, trial: 60s, seed: 5}
"""


def test_whatever_was_killed_amid_a_fault_is_destroyed(contend: Home) -> None:
    """A service that was stopped too, which no SIGTERM ends."""
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    (contend.path / "study.yaml").write_text(STUDY)
    running = contend.start("run", "study.yaml", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: list[Path] = []

    def stopped() -> bool:
        found[:] = contend.path.glob("**/rabbit-1/bed.json")
        return bool(found) and any(
            (stat := procfs.stat(pid)) is not None and stat.state == "T" for pid in bed.pids(found[0].parent)
        )

    wait_for(stopped, "the stopped service", 200)
    up = bed.load(found[0].parent)
    assert up is not None
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    contend("destroy", str(contend.the_run()), timeout=100).fine()
    assert not bed.pids(up.directory)


ELSEWHERE = """\
study: compare
workload: rpc-elsewhere
parameters: {payload: "1000"}
variants:
  - {name: oslo.messaging}
  - {name: native, parameters: {library: native}}
measure: {target: null, blocks: 1, pilot: 0, trial: 60s, seed: 5}
"""


def test_an_interrupt_leaves_no_queue_on_a_broker_of_others(contend: Home, rabbit: bed.Bed) -> None:
    """Nor for the minute after which oslo.messaging's queues for replies go by themselves."""
    (contend.path / "study.yaml").write_text(ELSEWHERE)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": {URL: rabbit.url()}}
    running = contend.start("run", "study.yaml", **quiet)
    wait_for(lambda: any(name.startswith("reply_") for name in queues(rabbit)), "the first call", 100)
    running.send_signal(signal.SIGINT)
    running.wait(60)
    assert queues(rabbit) == []
