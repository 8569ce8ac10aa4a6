"""Threads that take turns on one CPU: told by the bins in which cores are idle, and by no chance of one bin."""

from __future__ import annotations

from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi
from support.alibi_series import Host, Thread


def verdict(host: Host, start: float = 5, end: float = 15) -> Alibi:
    return judge(Recording.of_tables(host.tables()), *host.span(start, end))


def gil(cpu: float, threads: int = 8) -> Thread:
    return Thread("python3", 78, cpu, cpu / threads, threads=threads)


def test_strangers_that_fill_the_cores_for_most_of_the_time_do_not_hide_them() -> None:
    """Six of ten seconds without idle cores; in the other four it uses one CPU of four."""
    host = (
        Host().load(5, 15, cores=[0.25] * 4, threads=[gil(1.0)]).load(5, 11, cores=[0.75] * 4, cpu_wait=0.3)
    )
    found = verdict(host)
    turns = next(s for s in found.saturated if s.resource == "thread")
    assert "take turns" in turns.subject and 0.3 < turns.share < 0.5
    assert found.saturated[0].resource == found.verdict == "thread"


def test_a_little_is_lost_at_each_turn_and_nothing_is_gained() -> None:
    for cpu, told in ((0.95, True), (0.98, True), (0.86, False), (1.08, False)):
        host = Host().load(5, 15, cores=[cpu / 4] * 4, threads=[gil(cpu)])
        assert (verdict(host).verdict == "thread") == told, cpu


def test_one_cpu_for_a_moment_is_chance() -> None:
    host = Host(interval=0.5)
    for at in range(20):
        cpu = 1.0 if at == 7 else 0.4 + 0.3 * (at % 2)
        start = 5 + at * 0.5
        host.load(start, start + 0.5, cores=[cpu / 4] * 4, threads=[gil(cpu)])
    assert verdict(host).verdict == "idle"
    # Also where that moment is all there is to judge by.
    alone = Host(interval=0.5).load(8, 8.5, cores=[0.25] * 4, threads=[gil(1.0)])
    assert verdict(alone, 8, 8.5).verdict == "idle"


def test_threads_that_wait_for_a_lock_asleep_are_idle() -> None:
    host = Host().load(5, 15, cores=[0.02] * 4, threads=[gil(0.06, threads=64)])
    assert verdict(host).verdict == "idle"
