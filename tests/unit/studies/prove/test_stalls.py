"""A victim that stands still is noticed, within the time that is allowed, and no other is taken for one."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator

from contend.studies.prove.stalls import LEARNT_S, MOST_S, Stalls


class Victim:
    """Makes progress whenever it is looked at, but for the times at which it is still."""

    def __init__(self) -> None:
        self.count = itertools.count(1)
        self.value = 0
        self.still = False

    def progress(self) -> int:
        if not self.still:
            self.value = next(self.count)
        return self.value


def learnt(victim: Victim, still_s: float = 0.0, load_s: float | None = 60.0) -> Stalls:
    of = Stalls(victim.progress, load_s)
    with of.learning():
        time.sleep(LEARNT_S / 2)
        victim.still = bool(still_s)
        time.sleep(still_s)
        victim.still = False
        time.sleep(LEARNT_S)
    return of


def test_a_stall_is_noticed_once_and_soon() -> None:
    victim, let_go = Victim(), []
    of = learnt(victim)
    assert of.why_not == ""
    with of.watching(lambda: let_go.append(time.monotonic())):
        time.sleep(0.3)
        assert not let_go
        victim.still, began = True, time.monotonic()
        time.sleep(1)
    assert len(let_go) == 1
    assert let_go[0] - began < 0.5, "0.2 s, and what a busy host adds"
    assert of.stall_s > 0


def test_one_with_work_of_its_own_that_is_still_from_the_first_moment_on_is_noticed() -> None:
    victim, let_go = Victim(), []
    of = learnt(victim, load_s=None)
    victim.still = True
    with of.watching(lambda: let_go.append(1)):
        time.sleep(0.6)
    assert let_go == [1]


def test_one_whose_load_has_yet_to_begin_is_none() -> None:
    victim, let_go = Victim(), []
    of = learnt(victim)
    victim.still = True
    with of.watching(lambda: let_go.append(1)):
        time.sleep(0.6)
    assert not let_go


def test_a_victim_that_works_is_none() -> None:
    victim, let_go = Victim(), []
    of = learnt(victim)
    with of.watching(lambda: let_go.append(1)):
        time.sleep(0.5)
    assert not let_go and of.stall_s == 0


def test_one_that_is_often_still_is_not_watched_and_says_so() -> None:
    victim, let_go = Victim(), []
    of = learnt(victim, still_s=3 * MOST_S)
    assert math.isinf(of.after_s) and "still for" in of.why_not
    victim.still = True
    with of.watching(lambda: let_go.append(1)):
        time.sleep(0.5)
    assert not let_go


def test_nothing_is_known_before_it_was_seen_at_work() -> None:
    victim = Victim()
    victim.still = True
    of = Stalls(victim.progress, 60.0)
    with of.learning():
        time.sleep(0.2)
    assert "for long enough" in of.why_not


def test_a_load_that_is_over_is_no_stall() -> None:
    victim, let_go = Victim(), []
    of = Stalls(victim.progress, 1.2)
    with of.learning():
        time.sleep(1.5)
    assert of.why_not == ""
    with of.watching(lambda: let_go.append(1)):
        time.sleep(1.4)
        victim.still = True
        time.sleep(0.5)
    assert not let_go


def test_one_that_has_ended_is_looked_at_no_more() -> None:
    def ended() -> Iterator[int | None]:
        yield 1
        yield 2
        yield from itertools.repeat(None)

    values = ended()
    of = Stalls(lambda: next(values), 60.0)
    with of.learning():
        time.sleep(0.2)
    assert "for long enough" in of.why_not
