"""Storms of what takes turns on one thread, and of queues in other orders than that of arrival."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from contend.contention.whatif.prediction import whatif
from contend.contention.whatif.ranking import needless
from contend.contention.whatif.storms import Edit, open_storms
from support import toy_storm, toy_tasks
from support.prerequisites import need
from support.traced_program import PATH, traced

FEW = toy_storm.Parameters(jobs=12, plugs=1, plug_items=8, spawns=4, reports=1, realtime=toy_storm.realtime())


def test_tasks_of_a_loop_are_replayed_with_their_turns(tmp_path: Path) -> None:
    before = toy_tasks.storm(tmp_path / "before", FEW, busy=0.1, scale=2)
    after = toy_tasks.storm(tmp_path / "after", FEW, busy=0.1, scale=2, without=("audit",))
    answer = whatif(open_storms([tmp_path / "before"]), [Edit("remove", "audit")])
    assert answer.gate.self_replay_error < 0.15, answer.gate
    assert "event loop" in answer.regime.why
    error = answer.predicted["makespan_ns"].value / after.makespan - 1
    assert abs(error) < 0.3, (error, before.makespan, after.makespan)
    storm = open_storms([tmp_path / "before"])[0].storm
    ran = storm.run([], 0)["ran_ns"]
    # A tenth of what is done is computed, and no two tasks compute at a time.
    assert len(ran) == 1 and 0.05 * storm.run([], 0)["work_ns"] < ran[0] < before.makespan


def test_greenlets_of_a_hub_take_turns(tmp_path: Path) -> None:
    need(importlib.util.find_spec("eventlet"), "eventlet is not installed: pip install eventlet")
    truth = toy_storm.storm(tmp_path / "green", FEW, green=True)
    storm = open_storms([tmp_path / "green"])[0].storm
    parts, alone = storm.parts(), storm.run([], 0)
    assert len(parts["servers"]) == 1 and alone["stuck"] == 0
    assert 0 < alone["ran_ns"][0] < truth.makespan


def test_a_stack_of_items_is_replayed_as_one(tmp_path: Path) -> None:
    """Ten jobs at once push an item each, of which the first that is taken takes longest: in which order they are taken
    is told by who is done when."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import threading, time
from contend import trace

trace.start({str(tmp_path / "stack")!r})
items, start = trace.LifoQueue(name="stack"), threading.Event()

def work():
    while (item := items.get()) is not None:
        with trace.span("serve"):
            time.sleep(0.02)
            item.put(1)

def job(number):
    answer = trace.Queue(name="answer")
    start.wait()
    with trace.job("boot", number=number):
        time.sleep(0.001 * number)
        items.put(answer)
        answer.get()

worker = threading.Thread(target=work, name="worker 0")
jobs = [threading.Thread(target=job, args=(n,), name=f"boot {{n}}") for n in range(10)]
for thread in [worker, *jobs]:
    thread.start()
time.sleep(0.05)
start.set()
for thread in jobs:
    thread.join()
items.put(None)
worker.join()
trace.stop()
""")
    subprocess.run([sys.executable, str(program)], env={"PYTHONPATH": PATH}, check=True, timeout=60)
    source = open_storms([tmp_path / "stack"])[0]
    pools = {row["name"]: row for row in source.storm.parts()["pools"]}
    assert pools["stack"]["discipline"] == "lifo"
    answer = whatif([source], rank=False)
    # First in, first out would have the median 80 ms later, and everything else as it was.
    assert answer.gate.self_replay_error < 0.1, answer.gate


def test_calls_that_say_nothing_new_are_proposed_to_be_left_out(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import time
from contend import trace

trace.start({str(tmp_path / "calls")!r})
for number in range(40):
    with trace.job("boot", number=number):
        for name, said in (("call same", 1), ("call other", number)):
            with trace.span(name, kind="remote", arguments=trace.digest(said)):
                time.sleep(0.002)
trace.stop()
""")
    subprocess.run([sys.executable, str(program)], env={"PYTHONPATH": PATH}, check=True, timeout=60)
    assert needless(str(tmp_path / "calls")) == {"call same"}


def test_threads_that_compute_take_turns_in_their_interpreter(tmp_path: Path) -> None:
    """Eight jobs at once that compute 20 ms each: the last one ends when all have, and leaving half out takes half."""
    traced(
        tmp_path,
        """
        import threading, time
        from contend import trace

        def compute():
            end = time.thread_time_ns() + 10_000_000
            while time.thread_time_ns() < end:
                pass

        def job(start):
            start.wait()
            with trace.job("render"):
                for part in ("draw", "shade"):
                    with trace.span(part):
                        compute()

        start = threading.Event()
        jobs = [threading.Thread(target=job, args=(start,)) for _ in range(8)]
        for each in jobs:
            each.start()
        start.set()
        for each in jobs:
            each.join()
        """,
        "--cpu-times",
    )
    plain = open_storms([tmp_path / "t"])[0]
    assert plain.storm.run([], 0)["computed_ns"] == []
    storm = plain.read_again("simulated").storm
    alone = storm.run([], 0)
    computed, waited = sum(alone["computed_ns"]), sum(alone["interpreter_ns"])
    # A thread computes before its job begins, too: while it starts, and while others have the interpreter of its maker.
    since_the_start = float(np.frombuffer(alone["end_ns"], "<u8").max())
    assert 160e6 < computed <= since_the_start, "one at a time, whoever else has the processors"
    assert waited > computed, "each waits for the others"
    half = sum(storm.run([Edit("remove", "draw").native], 0)["computed_ns"])
    assert 0.4 < half / computed < 0.6
    judged = whatif([plain], [Edit("remove", "draw")])
    assert judged.regime.kind == "CPU-bound" and judged.regime.replayed
    assert 0.35 < judged.predicted["makespan_ns"].value / alone_makespan(alone) < 1


def alone_makespan(outcome: dict[str, bytes]) -> float:
    begin, end = (np.frombuffer(outcome[key], "<u8") for key in ("begin_ns", "end_ns"))
    return float(end.max() - begin.min())


def order(outcome: dict[str, Any]) -> list[int]:
    """Which of the jobs, in the order in which they came, ends when."""
    begin, end = (np.frombuffer(outcome[key], "<u8") for key in ("begin_ns", "end_ns"))
    return [int(place) for place in np.argsort(end[np.argsort(begin)])]


def test_a_priority_queue_is_replayed_in_its_own_order(tmp_path: Path) -> None:
    """Nine jobs at once put a piece each, of which the first that is taken takes longest; then the most urgent is next."""
    traced(
        tmp_path,
        """
        import queue, threading, time
        from contend import trace

        pieces, came, taken = queue.PriorityQueue(), [], []

        def work():
            while (piece := pieces.get())[2] is not None:
                taken.append(piece)
                with trace.span("serve"):
                    time.sleep(0.02 if piece[0] else 0.2)
                piece[2].set()

        def job(number):
            done = threading.Event()
            with trace.job("boot", number=number):
                pieces.put((-number, 0.5, done))
                came.append(number)
                done.wait()

        worker = threading.Thread(target=work)
        jobs = [threading.Thread(target=job, args=(number,)) for number in range(9)]
        worker.start()
        for number, thread in enumerate(jobs):
            thread.start()
            # However the host lets them run, they come in this order, and the first is taken before another comes.
            while len(came) <= number or not taken:
                time.sleep(0.001)
        for thread in jobs:
            thread.join()
        pieces.put((1, 1, None))
        worker.join()
        """,
    )
    source = open_storms([tmp_path / "t"])[0]
    (pool,) = (row for row in source.storm.parts()["pools"] if row["jobs"] == 9)
    assert pool["discipline"] == "ranked"
    answer = whatif([source], [Edit("workers", pool["name"], 2)], rank=False)
    # First come, first served would have the median as it is, and the first of all jobs and the last change places.
    assert answer.gate.self_replay_error < 0.1, answer.gate
    recorded = order(source.storm.recorded())
    assert order(source.storm.run([], 0)) == recorded
    assert recorded == [0, *range(8, 0, -1)]
    assert sum(source.storm.run([Edit("workers", pool["name"], 2).native], 0)["guessed"]) == 0
