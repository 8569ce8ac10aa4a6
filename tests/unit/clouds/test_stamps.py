"""Moments seen by polling, as intervals; what server stamps add to them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contend.clouds.storm.stamps import (
    NS,
    Clocks,
    Interval,
    Poll,
    Track,
    clocks,
    merge,
    of_server,
    phases,
    state_of,
)


def watched(*polls: tuple[str, int, int], due: int = 0, accepted: int = 5) -> Track:
    track = Track("a", due_ns=due, sent_ns=due + 1, accepted_ns=accepted)
    for state, sent, received in polls:
        track.observe(state, Poll(sent, received))
    return track


def test_a_change_lies_between_the_last_poll_without_and_the_first_with() -> None:
    track = watched(("", 2, 4), ("scheduling", 10, 12), ("scheduling", 20, 23), ("active", 30, 34))
    assert track.entries == [("scheduling", Interval(2, 12)), ("active", Interval(20, 34))]
    assert track.active == Interval(20, 34)


def test_a_poll_for_active_servers_tells_nothing_of_the_states_before() -> None:
    track = watched(("scheduling", 10, 12))
    track.observe("", Poll(20, 22, whole=False))
    track.observe("spawning", Poll(30, 32))
    track.observe("", Poll(40, 42, whole=False))
    track.observe("active", Poll(50, 52, whole=False))
    assert [interval for _, interval in track.entries[1:]] == [Interval(10, 32), Interval(40, 52)]


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=6).map(sorted),
    st.lists(st.tuples(st.integers(1, 500), st.integers(1, 200), st.booleans()), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_the_interval_holds_the_moment(
    changes: list[int], polls: list[tuple[int, int, bool]], chance: object
) -> None:
    """Whenever the states change and the polls are, each shows a state that was true between sending and answer, or, where
    only ACTIVE servers are asked for, that it was not."""
    states = ["scheduling", "claim", "networking", "block devices", "spawning", "active"][-len(changes) :]
    track, now = Track("a"), 0
    for gap, length, whole in polls:
        sent, received = now + gap, now + gap + length
        seen_at = chance.randint(sent, received)  # type: ignore[attr-defined]
        reached = [s for s, at in zip(states, changes, strict=True) if at <= seen_at]
        state = reached[-1] if reached and (whole or reached[-1] == "active") else ""
        track.observe(state, Poll(sent, received, whole=whole))
        now = received
    for state, interval in track.entries:
        assert interval.low <= changes[states.index(state)] <= interval.high


def test_phases_add_up_and_unseen_ones_take_no_time() -> None:
    track = watched(("scheduling", 10, 12), ("spawning", 20, 24), ("active", 30, 34), accepted=5)
    assert track.active is not None
    found = phases(track, track.active)
    assert found == {"api": 5, "scheduling": 12, "spawning": 10}
    assert sum(found.values()) == track.active.estimate - track.due_ns


def test_phases_add_up_where_the_server_says_it_was_active_earlier() -> None:
    track = watched(("scheduling", 10, 12), ("spawning", 20, 90), ("active", 95, 99), accepted=5)
    active = Interval(20, 40)  # narrowed: before the middle of (10, 90)
    found = phases(track, active)
    assert sum(found.values()) == active.estimate - track.due_ns
    assert min(found.values()) >= 0


def test_without_states_the_rest_is_one_part() -> None:
    track = watched(("", 10, 12), ("active", 30, 34), accepted=5)
    assert track.active is not None
    assert phases(track, track.active) == {"api": 5, "all the rest": 17}


def test_an_answer_later_than_the_work_does_not_count_twice() -> None:
    track = watched(("spawning", 10, 12), ("active", 30, 34), accepted=40)
    assert track.active is not None
    found = phases(track, track.active)
    assert sum(found.values()) == track.active.estimate
    assert found["api"] == 6  # the middle of (1, 12): it was spawning by then


def test_gone_is_an_interval_too() -> None:
    track = Track("a", delete_ns=100)
    track.observe_gone(True, Poll(110, 120))
    track.observe_gone(False, Poll(130, 140))
    track.observe_gone(False, Poll(150, 160))
    assert track.gone == Interval(110, 140)


def test_states_of_nova() -> None:
    def build(task: str | None) -> str:
        return state_of({"status": "BUILD", "OS-EXT-STS:task_state": task})

    assert [build(t) for t in ("scheduling", None, "networking", "block_device_mapping", "spawning")] == [
        "scheduling",
        "claim",
        "networking",
        "block devices",
        "spawning",
    ]
    assert state_of({"status": "ERROR", "fault": {}}) == "error"
    assert build("image_uploading") == "image_uploading"


@given(st.integers(-3 * NS, 3 * NS), st.lists(st.integers(0, 100 * NS), min_size=1, max_size=30))
def test_clocks_hold_the_true_offset(offset: int, sendings: list[int]) -> None:
    """The header is made somewhere between sending and answer, its fraction cut off."""
    length = 50_000_000
    dates = [((at + length // 3 + offset) // NS, at, at + length) for at in sendings]
    found = clocks(dates)
    assert found is not None
    assert found.low <= offset <= found.high


def test_clocks_that_contradict_are_none() -> None:
    assert clocks([(100, 100 * NS, 100 * NS), (200, 100 * NS, 100 * NS)]) is None
    assert clocks([]) is None


def test_a_whole_second_of_the_server_may_have_been_cut_or_rounded() -> None:
    same = Clocks(0, 0)
    assert of_server(10.0, same, 0) == Interval(10 * NS - NS // 2, 11 * NS)
    assert of_server(10.25, same, 0) == Interval(10 * NS + NS // 4, 10 * NS + NS // 4)
    ahead = Clocks(2 * NS, 3 * NS)
    assert of_server(10.25, ahead, 0) == Interval(7 * NS + NS // 4, 8 * NS + NS // 4)


def test_merging_narrows_or_leaves() -> None:
    seen = Interval(10, 30)
    assert merge(seen, [Interval(0, 5)], [Interval(50, 60)]) == (seen, True)
    assert merge(seen, [Interval(12, 50)], []) == (Interval(12, 30), True)
    assert merge(seen, [], [Interval(0, 9)]) == (seen, False)
