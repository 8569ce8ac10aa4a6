"""A budget that is being spent: what is left, when what still runs is cut off, and how an alarm interrupts it."""

from __future__ import annotations

import math
import signal
import time

import pytest

from contend.engine.deadline import ROW_S, Deadline, longest_s
from contend.interrupts import Interrupts
from contend.studies.needs import RESERVE_S
from support.fake_clock import FakeClock

S = 10**9


def test_what_is_left_counts_from_the_key_press() -> None:
    clock = FakeClock(100 * S)
    deadline = Deadline.of(60 * S, clock, began_ns=98 * S)
    assert (deadline.spent_s(), deadline.left_s(), deadline.room_s()) == (2.0, 58.0, 58.0 - RESERVE_S)
    clock.sleep(70)
    assert deadline.left_s() == -12.0


def test_without_a_budget_nothing_ends_a_run() -> None:
    deadline = Deadline.of(None, FakeClock(0))
    assert math.isinf(deadline.left_s())
    assert math.isinf(deadline.room_s())
    assert math.isinf(deadline.cut_s())


@pytest.mark.parametrize("budget_s", [1, 5, 20, 60, 240, 1800, 36_000])
def test_after_the_cut_there_is_time_for_analysis_and_report(budget_s: int) -> None:
    """At least the reserve and a twentieth of the budget remain of what is allowed."""
    cut_s = Deadline.of(budget_s * S, FakeClock(0)).cut_s()
    assert 0 < cut_s <= 1.05 * budget_s
    assert longest_s(budget_s) - cut_s >= RESERVE_S + 0.05 * budget_s


def test_the_alarm_interrupts_a_wait_and_says_that_it_was_the_alarm() -> None:
    began = time.monotonic()
    with Interrupts() as interrupts:
        interrupts.alarm(0.1)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)
        assert interrupts.expired
        assert interrupts.raised
    assert time.monotonic() - began < 5


def test_an_alarm_meets_nobody_in_the_tear_down_or_after_it() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with Interrupts() as interrupts:
        interrupts.alarm(0.05)
        interrupts.hold()
        time.sleep(0.1)
        assert not interrupts.expired
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_waits_for_code_that_must_not_be_interrupted() -> None:
    with Interrupts() as interrupts:
        interrupts.alarm(0.05)
        with pytest.raises(KeyboardInterrupt), interrupts.postponed():
            time.sleep(0.1)
            whole = True
        assert whole
        assert interrupts.expired


def test_an_interrupt_is_not_lost_where_what_it_waits_for_fails() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt) as raised, interrupts.postponed():
            signal.raise_signal(signal.SIGINT)
            raise OSError("a full disk")
        assert interrupts.raised
        assert isinstance(raised.value.__context__, OSError)


def test_ctrl_c_is_not_taken_for_a_spent_budget() -> None:
    with Interrupts() as interrupts:
        interrupts.alarm(60)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not interrupts.expired


def test_what_is_kept_back_grows_with_the_rows() -> None:
    """The promise holds for whatever analysis and report of so many rows take here."""
    deadline = Deadline.of(60 * S, FakeClock(0))
    small = deadline.cut_s(), deadline.room_s()
    deadline.size.rows = 100_000
    extra_s = 100_000 * ROW_S
    assert (deadline.cut_s(), deadline.room_s()) == pytest.approx((small[0] - extra_s, small[1] - extra_s))
    assert longest_s(60) - deadline.cut_s() >= 21 + 0.05 * 60, "21 CPU-s: what 100,000 rows took"
