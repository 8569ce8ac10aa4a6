"""Spans, instants, counters, flows, jobs."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend import trace
from contend.store.trace_summary import summarise
from support.ctrace_events import (
    BEGIN,
    COUNTER,
    END,
    FLOW_IN,
    FLOW_OUT,
    INSTANT,
    JOB_BEGIN,
    JOB_END,
    LOCK_WAIT,
    read,
)

VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.booleans(),
    st.none(),
)


@settings(max_examples=50, deadline=None)
@given(
    args=st.dictionaries(st.text("abcdefgh", min_size=1), VALUES, max_size=64),
    name=st.text("äb.c", min_size=1),
)
def test_arguments_come_back(
    tmp_path_factory: pytest.TempPathFactory, args: dict[str, object], name: str
) -> None:
    path = trace.start(tmp_path_factory.mktemp("t"))
    with trace.span(name, **args):
        trace.instant(name, **args)
    trace.stop()
    told = {
        key: value
        if isinstance(value, float) or (type(value) is int and -(2**63) <= value < 2**63)
        else str(value)
        for key, value in args.items()
    }
    trace_ = read(path)
    [begun], [seen] = trace_.of(BEGIN), trace_.of(INSTANT)
    assert begun.args == told == seen.args and begun.name == name == seen.name
    assert len(trace_.spans()) == 1


def test_long_texts_are_cut_between_characters(tmp_path: Path) -> None:
    path = trace.start(tmp_path)
    trace.instant("i", text="a" + "ä" * 2000)
    trace.stop()
    [event] = read(path).of(INSTANT)
    assert event.args == {"text": "a" + "ä" * 511}


def test_counters_keep_integers_and_floats(tmp_path: Path) -> None:
    path = trace.start(tmp_path)
    for value in (1, -(2**63), 0.25, 2**63):
        trace.counter("depth", value)
    with pytest.raises(TypeError):
        trace.counter("depth", "three")  # type: ignore[arg-type]
    trace.stop()
    told = [event.args[""] for event in read(path).of(COUNTER)]
    assert told == [1, -(2**63), 0.25, float(2**63)] and type(told[0]) is int


def test_a_flow_is_the_same_on_both_sides(tmp_path: Path) -> None:
    path = trace.start(tmp_path)
    number = trace.flow.sent("rpc")
    trace.flow.received("rpc", number)
    trace.flow.received("rpc", "req-7")
    assert trace.flow.sent("rpc", -1) == 2**64 - 1
    with pytest.raises(TypeError, match=r"not by 1\.5"):
        trace.flow.sent("rpc", 1.5)  # type: ignore[arg-type]
    trace.stop()
    told = read(path)
    [sent, minus], [got, named] = told.of(FLOW_OUT), told.of(FLOW_IN)
    assert sent.args == got.args and sent.value == number & 0xFFFFFFFF == got.value
    assert minus.args[""] == -1
    assert named.args[""] == trace.flow.received("rpc", "req-7") - (1 << 64) * (named.args[""] < 0)  # type: ignore[operator]


def test_a_job_may_end_in_another_thread(tmp_path: Path) -> None:
    path = trace.start(tmp_path)
    first = trace.job("boot", server="web").begin()
    with trace.job("boot") as second:
        pass
    other = threading.Thread(target=first.end)
    other.start()
    other.join()
    first.end()
    trace.stop()
    told = read(path)
    assert [event.value for event in told.of(JOB_BEGIN)] == [first.number, second.number]
    assert {event.value for event in told.of(JOB_END)} == {first.number, second.number}
    assert len(told.of(JOB_END)) == 2 and told.of(JOB_BEGIN)[0].args == {"server": "web"}


def test_cpu_times_are_beside_both_ends(tmp_path: Path) -> None:
    path = trace.start(tmp_path, cpu_times=True)
    work = trace.traced(name="work")(_work)
    work()
    trace.stop()
    told = read(path)
    [begun], [ended] = told.of(BEGIN), told.of(END)
    cpu = int(ended.args["cpu"]) - int(begun.args["cpu"])  # type: ignore[call-overload]
    assert 0 < cpu <= told.seconds(ended.ticks - begun.ticks) * 1e9 * 1.01


def test_cpu_times_are_beside_jobs_and_waits(tmp_path: Path) -> None:
    path = trace.start(tmp_path, cpu_times=True)
    lock = trace.Lock()
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(0.02)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with trace.job("wait"):
        _work()
        with lock:
            pass
    holder.join()
    trace.stop()
    told = read(path)
    [begun], [ended] = told.of(JOB_BEGIN), told.of(JOB_END)
    waited = next(
        event for event in told.of(LOCK_WAIT) if event.track == begun.track and event.ticks > begun.ticks
    )
    first, then, last = (int(event.args["cpu"]) for event in (begun, waited, ended))  # type: ignore[call-overload]
    work_ns = told.seconds(waited.ticks - begun.ticks) * 1e9
    assert 0 < then - first <= work_ns * 1.01
    assert 0 <= last - then < 0.01e9, "it computed before it waited"


def _work() -> int:
    return sum(range(200_000))


@pytest.mark.parametrize("clock", ["auto", "monotonic"])
def test_ticks_are_the_monotonic_clock(tmp_path: Path, clock: str) -> None:
    path = trace.start(tmp_path, clock=clock)  # type: ignore[arg-type]
    before = time.monotonic_ns()
    trace.instant("now")
    after = time.monotonic_ns()
    time.sleep(0.3)
    trace.flush()
    trace.stop()
    told = read(path)
    (tick0, ns0), (tick1, ns1) = told.syncs[0], told.syncs[-1]
    now = ns0 + (told.of(INSTANT)[0].ticks - tick0) * (ns1 - ns0) / (tick1 - tick0)
    assert before - 2000 <= now <= after + 2000
    assert clock == "auto" or (told.clock, told.ticks_per_s) == (0, 10**9)


def test_what_a_value_records_while_it_is_told_comes_before(tmp_path: Path) -> None:
    class Telling:
        @trace.traced(name="str")
        def __str__(self) -> str:
            return "told"

    path = trace.start(tmp_path)
    with trace.span("outer", what=Telling()):
        trace.instant("inside", what=Telling())
    trace.stop()
    told = read(path)  # in the order of its ticks
    assert [span[1] for span in told.spans()] == ["str", "str", "outer"]
    assert told.of(INSTANT)[0].args == told.of(BEGIN)[1].args == {"what": "told"}


def test_run_delay_is_beside_both_ends(tmp_path: Path) -> None:
    """The kernel's account of the thread, by its own words."""

    def delay_ns() -> int:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])

    path = trace.start(tmp_path, run_delay=True)
    before = delay_ns()
    with trace.span("work", n=1):
        within = delay_ns()
    after = delay_ns()
    trace.stop()
    told = read(path)
    [begun], [ended] = told.of(BEGIN), told.of(END)
    told_ns = [int(event.args["run delay"]) for event in (begun, ended)]  # type: ignore[call-overload]
    # Where the CPU is taken away while it is read, that is told by the clock and the CPU time, which are read in turn.
    known, margin = [before, within, after], 100_000
    for told_now, (low, high) in zip(told_ns, pairwise(known), strict=True):
        assert low - margin <= told_now <= high + margin
    assert begun.args["n"] == 1
    [work] = summarise(tmp_path).spans
    assert work.run_delay_ns == max(0, told_ns[1] - told_ns[0])
