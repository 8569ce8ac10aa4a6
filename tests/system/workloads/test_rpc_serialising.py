"""What of a call is serialising: by spans whose CPU time is known, and over a real broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contend.errors import HostFailed
from contend.store.trace_summary import summarise
from contend.testbed.rabbit.bed import Bed
from contend.workloads.drivers.rpc import serialising, trial
from support.rpc import end, over, queues, remover

# Three calls, each served by a thread's own CPU time; sleeping is no CPU time. It says what it took, by the same clock.
CALLS = """\
import sys, time
from contend import trace
def burn(ms):
    began = time.thread_time_ns()
    while time.thread_time_ns() - began < ms * 1e6:
        pass
trace.start(sys.argv[1], cpu_times=True)
took = {"message": 0, "wire": 0}
for _ in range(3):
    with trace.span("rpc serve work"):
        for part, name, ms in (
            ("message", "rpc serialise message", 4), ("wire", "rpc serialise envelope", 8),
            ("wire", "rpc deserialise envelope", 2), ("", "rpc send reply", 6),
        ):
            with trace.span(name):
                began = time.thread_time_ns()
                burn(ms)
                time.sleep(0.003)
                if part:
                    took[part] += time.thread_time_ns() - began
trace.stop()
print(took["message"], took["wire"])
"""


def test_shares_are_of_cpu_time_by_call(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", CALLS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    message_ns, wire_ns = (int(word) for word in said.stdout.split())
    told = serialising.shares(summarise(tmp_path), ends_s=0.1)
    assert told["calls"] == 3
    # The span is longer than what is in it by a few reads of the clock.
    assert told["cpu_s_per_call"]["message"] == pytest.approx(message_ns / 3e9, rel=0.01)
    assert told["cpu_s_per_call"]["wire"] == pytest.approx(wire_ns / 3e9, rel=0.01)
    assert told["share"] == pytest.approx((message_ns + wire_ns) / 3e9 / 0.1, rel=0.01)


def test_a_trace_without_calls_is_no_answer(tmp_path: Path) -> None:
    program = CALLS.replace("rpc serve work", "something else")
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=True)
    with pytest.raises(HostFailed, match="no call"):
        serialising.shares(summarise(tmp_path), ends_s=0.1)


def test_the_first_of_two_goes_with_the_envelope(rabbit: Bed, tmp_path: Path) -> None:
    found: dict[bool, Any] = {}
    for envelope in (True, False):
        ends = (end(role, "oslo", envelope=envelope, callers=4) for role in ("driver", "service"))
        out = tmp_path / str(envelope)
        out.mkdir()
        asked = trial.CallOptions(*ends, seconds=0.5, warm_s=0.1, payload="50000")
        found[envelope] = serialising.run(over(rabbit), asked, out, remover(rabbit.url()))["serialising"]
        assert not (out / "traces").exists()
    # Without the envelope a message is read to see that it has none.
    message = {envelope: told["cpu_s_per_call"]["message"] for envelope, told in found.items()}
    assert 0 <= message[False] < 0.2 * message[True]
    for told in found.values():
        assert 0 < told["cpu_s_per_call"]["wire"] <= told["cpu_s_per_call"]["all"]
        assert 0 < told["share"] < 1 and told["calls"] > 10
    assert queues(rabbit) == []
