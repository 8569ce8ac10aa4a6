"""What a fault did to calls, of calls made by hand whose answer is known."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.testbed.rabbit.bed import Bed
from contend.workloads.drivers.rpc import loop
from contend.workloads.drivers.rpc.options import Phase
from contend.workloads.drivers.rpc.reckoning import Call, Fault, backlog, reckon, recovery
from contend.workloads.generators import rpc_failures
from contend.workloads.generators.failing_broker import faults
from support.generators import parameters_file

S = 10**9
RATE = 20
AT_ONCE = Fault((5 * S, 5 * S), (8 * S, 8 * S))


def paced(seconds: int, *, dead: tuple[float, float] = (0, 0), takes_s: float = 0.01) -> list[Call]:
    """Calls at RATE; those that are due while nobody answers are lost after 2 s."""
    made = []
    for number, due in enumerate(loop.evenly(RATE, seconds)):
        lost = dead[0] <= due / S < dead[1]
        took = 2 * S if lost else round(takes_s * S)
        made.append(Call(number, due, due + took, "timed_out" if lost else "ok"))
    return made


def test_an_outage_is_known_to_the_pace() -> None:
    """Answers stop at 5 s and flow again with the call that is due at 7 s: 1.95 to 2 s after the fault."""
    told = reckon(paced(20, dead=(5, 7)), range(400), AT_ONCE, S // 10)
    assert told["recovery_s"] == {"recovered": True, "low": 1.95, "high": 2.0}
    assert (told["recovered"], told["outage_s"]) == (1, 2.0)
    assert told["lost"]["count"] == 40
    assert told["lost"]["low"] < 0.1 < told["lost"]["high"]
    assert (told["answered"]["count"], told["failed"]["count"], told["late"]["count"]) == (360, 0, 0)
    assert told["done_unheard"]["count"] == 40
    assert told["backlog"] == 40


def test_a_fault_that_took_its_time_widens_the_interval() -> None:
    found = recovery(paced(20, dead=(5, 7)), Fault((4 * S, 6 * S), (8 * S, 8 * S)), S // 10)
    assert found == {"recovered": True, "low": 0.95, "high": 3.0}


def test_what_harms_nobody_lasted_no_longer_than_the_pace_can_tell() -> None:
    found = reckon(paced(20), range(400), AT_ONCE, S // 10)
    assert found["recovery_s"] == {"recovered": True, "low": 0.0, "high": 0.05}
    assert found["lost"]["count"] == 0
    assert 0.005 < found["lost"]["high"] < 0.01  # of 400 calls
    between = recovery(paced(20), Fault((5 * S + 1, 5 * S + 2), (8 * S, 8 * S)), S // 10)
    assert between["high"] == pytest.approx(0.05)


def test_an_outage_without_an_end_is_said() -> None:
    told = reckon(paced(20, dead=(6, 30)), range(400), AT_ONCE, S // 10)
    assert told["recovery_s"]["recovered"] is False
    assert told["recovery_s"]["high"] is None
    assert told["recovered"] == 0
    assert told["outage_s"] == pytest.approx(14.95)


def test_a_backlog_has_to_be_worked_off_before_answers_flow_again() -> None:
    """Nothing is taken from 5 s to 8 s, then twice as much as comes: the last late answer is of a call due after 8 s."""
    calls = []
    for number, due in enumerate(loop.evenly(RATE, 20)):
        done = due + S // 100
        if 5 * S <= due < 11 * S:
            done = max(done, round(8 * S + (due - 5 * S) / 2))
        calls.append(Call(number, due, done, "ok"))
    told = reckon(calls, range(400), AT_ONCE, S // 10)
    assert (told["lost"]["count"], told["backlog"]) == (0, 60)
    assert 5 < told["recovery_s"]["low"] < told["recovery_s"]["high"] < 6
    assert told["late"]["count"] == pytest.approx(116, abs=2)


def test_what_was_done_twice_is_counted_once_and_strangers_are_not() -> None:
    handled = [*range(400), 7, 7, 8, 9999]
    random.Random(1).shuffle(handled)
    told = reckon(paced(20), handled, AT_ONCE, S // 10)
    assert told["duplicated"]["count"] == 2
    assert told["handled"] == 403
    json.dumps(told, allow_nan=False)


def test_a_loop_tells_what_became_of_each_call() -> None:
    """Those that no caller was left for too: they were due."""

    def call(number: int) -> str:
        if number == 3:
            loop.time.sleep(5)
        return {1: "timed out: no answer", 2: "KeyError: no"}.get(number, "")

    phase = Phase(0.2, rate=50, drain_s=0.1, poisson=False, calls=True)
    told = loop.run(call, 1, phase)
    found = {number: (due, outcome) for number, due, _, outcome in told["calls"]}
    assert [found[k] for k in range(5)] == [
        (0, "ok"),
        (20_000_000, "timed_out"),
        (40_000_000, "refused"),
        (60_000_000, "unfinished"),
        (80_000_000, "unfinished"),
    ]
    assert len(found) == told["due"] == 10
    assert told["unfinished"] == 7


def test_calls_that_follow_each_other_at_once_are_no_backlog() -> None:
    assert backlog([Call(0, 0, 5, "ok"), Call(1, 5, 9, "ok")]) == 1


def test_a_broker_that_cannot_have_a_fault_says_so() -> None:
    one = Bed(Path("/nowhere"), (1,), "secret", "3.10.8", False)
    for fault in faults.NAMES:
        faults.check(fault, Bed(Path("/nowhere"), (1, 2, 3), "secret", "3.10.8", True))
    with pytest.raises(BadInput, match="one node alone"):
        faults.check("partition", one)
    for fault in ("kill", "partition"):
        with pytest.raises(BadInput, match="the run's own"):
            faults.check(fault, None)


def test_a_fault_that_outlasts_the_load_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    work = tmp_path / "party"
    work.mkdir()
    asked = parameters_file("rpc-failures", work, work, library="native", before="3s", lasts="2s")
    assert rpc_failures.main(["run", asked, "5s"]) == 2
    assert "is not over within a load of 5 s" in capsys.readouterr().err
    asked = parameters_file("rpc-failures", work, work, library="native", payload="some")
    assert rpc_failures.main(["run", asked, "8s"]) == 2
    assert list(tmp_path.iterdir()) == [work]
