"""What notifications add to the interval in which a server became ACTIVE."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from contend.clouds.storm.notices import Notice, Notices
from contend.clouds.storm.stamps import NS, Clocks, Interval, Track
from contend.clouds.storm.storm import Happened, StormOptions
from contend.clouds.storm.watchers import hear

HERE, THERE = "http://127.0.0.1:8774/v2.1", "http://192.0.2.1:8774/v2.1"


def heard(notices: list[Notice], *, clock: Clocks | None, url: str = HERE) -> Happened:
    """Of a server that polls saw become ACTIVE between 10 s and 12 s of CLOCK_MONOTONIC."""
    track = Track("a")
    track.id = "u"
    happened = Happened(StormOptions(1), [track])
    happened.active["a"] = Interval(10 * NS, 12 * NS)
    happened.clock = clock
    thread = threading.Thread(target=int)
    api: Any = SimpleNamespace(access=SimpleNamespace(endpoint=lambda _service: url), counts=Counter())
    hear(api, happened, Notices(notices, threading.Event(), thread, []))
    return happened


def notice(what: str, at_s: float, received_s: float) -> Notice:
    """Sent at that moment by the sender's wall clock, if it is ours."""
    offset = time.time_ns() - time.monotonic_ns()
    return Notice("u", what, round(at_s * NS) + offset, round(received_s * NS))


def near(ns: int, seconds: float) -> bool:
    """But for what the two clocks were read apart."""
    return ns == pytest.approx(seconds * NS, abs=NS // 100)


def test_on_one_host_the_first_stamp_is_the_moment() -> None:
    notices = [notice("start", 9, 9), notice("active", 11, 11.5), notice("end", 11.25, 11.5)]
    happened = heard(notices, clock=Clocks(-NS // 2, NS // 2))
    active = happened.active["a"]
    assert active.low == 10 * NS and near(active.high, 11)
    assert active.estimate == active.high
    assert happened.unheard["a"] == Interval(10 * NS, 12 * NS)
    assert happened.stamps["a"].keys() == {"start", "active", "end"}
    assert happened.disagree == 0


def test_of_another_host_it_counts_when_it_came() -> None:
    happened = heard([notice("end", 99, 11.5)], clock=None)
    assert happened.active["a"].high == round(11.5 * NS)


def test_another_hosts_stamp_counts_by_the_bounds_of_its_clock() -> None:
    happened = heard([notice("end", 11, 11.75)], clock=Clocks(-NS // 4, NS // 4), url=THERE)
    assert near(happened.active["a"].high, 11.25)


def test_a_stamp_from_before_what_was_seen_is_a_contradiction_and_changes_nothing() -> None:
    happened = heard([notice("end", 9, 9)], clock=Clocks(0, 0))
    assert happened.active["a"] == Interval(10 * NS, 12 * NS)
    assert happened.disagree == 1


def test_what_comes_after_the_interval_narrows_nothing() -> None:
    happened = heard([notice("end", 13, 13)], clock=Clocks(0, 0))
    assert happened.active["a"] == Interval(10 * NS, 12 * NS)
    assert happened.active["a"].estimate == 11 * NS
