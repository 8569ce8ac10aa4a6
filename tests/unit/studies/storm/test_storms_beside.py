"""What stands beside storms, in a run's documents and in words: counts, guests, nova's stamps, what traces say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from contend.studies.storm import beside
from contend.studies.storm import words as storm_words
from contend.studies.storm.result import Storms
from unit.studies.storm.test_storm_result import document, found, run

COUNTED = {
    "polls": 9,
    "quiet_ns": [0, 10],
    "storm_ns": [20, 30],
    "polled_ns": [30, 35],
    "per_boot": {
        "statements": [412.0, 410.0, 414.0],
        "statements of nova": [300.0, 299.0, 301.0],
        "statements of keystone": [112.0, 111.0, 113.0],
        "statements of heat": [0.2, 0.0, 0.4],
        "commits": [61.0, 60.0, 62.0],
        "messages": [38.0, 37.0, 39.0],
    },
    "per_poll": {"statements": 17.0, "messages": 0.0},
    "background_per_s": {"statements": 2.5, "messages": 1.25},
}


def storms_with(path: Path, **more: Any) -> Storms:
    return found(path, run(path, {(n, "none"): 0.0 for n in (1, 20)}, **more))


def test_counts_of_a_boot_are_told_with_what_was_left_out(tmp_path: Path) -> None:
    [line] = storm_words.counts(storms_with(tmp_path, counted=COUNTED))
    assert line.startswith(
        "A boot takes 412 [412, 412] SQL statements (nova 300, keystone 112) and 61 [61, 61] commits, and 38 [38, 38]"
        " messages (n = 20;"
    )
    assert "2.5 statements a second, 17 a poll; 1.2 messages a second, 0 a poll" in line


def test_nothing_is_said_of_what_nobody_asked_for(tmp_path: Path) -> None:
    storms = storms_with(tmp_path)
    assert storm_words.counts(storms) == []
    assert storm_words.guests(storms) == []
    assert storm_words.stamps(storms) == []
    assert storm_words.findings(storms) == []


SERVING = {
    "probes": 40,
    "median_s": 5.0,
    "p90_s": 6.0,
    "max_s": 7.0,
    "after_active_s": 2.5,
    "guest_s": 2.75,
    "width_s": 0.1,
}


@pytest.mark.parametrize(
    ("answered", "at_once", "timed_out", "said"),
    [
        (
            20,
            0,
            0,
            "Request → first answer of the guest: 5.00 [5.00, 5.00] s (median), 6.00 (p90), 7.00 (max)",
        ),
        (15, 0, 5, "40 of 160 guests did not answer in time"),
        (18, 2, 0, "16 of 160 guests' addresses answered the first attempt"),
        (0, 0, 20, "nothing serves in these guests"),
    ],
)
def test_guests_have_figures_only_where_all_answered(
    tmp_path: Path, answered: int, at_once: int, timed_out: int, said: str
) -> None:
    serving = {**SERVING, "answered": answered, "at_once": at_once, "timed_out": timed_out}
    storms = storms_with(tmp_path, serving=serving)
    [line] = storm_words.guests(storms)
    assert said in line
    of = storms.sizes[-1].serving
    assert of is not None
    told = timed_out + at_once == 0
    assert bool(of.levels) == told
    assert storms.sizes[-1].phases.get("guest") == (2.75 if told else None)
    assert ("served" in storm_words.headers(storms)) == told
    assert [len(storm_words.row(size, storms)) for size in storms.sizes] == [
        len(storm_words.headers(storms))
    ] * 2


def test_a_storm_of_an_earlier_version_has_no_phase_of_its_guests(tmp_path: Path) -> None:
    known = {name: told for name, told in SERVING.items() if name not in ("guest_s", "width_s")}
    storms = storms_with(tmp_path, serving={**known, "answered": 20, "at_once": 0, "timed_out": 0})
    assert "guest" not in storms.sizes[-1].phases
    assert storm_words.guests(storms)[0].endswith("s after ACTIVE.")


def test_how_far_off_polling_was_is_told_of_all_storms(tmp_path: Path) -> None:
    stamps = {"heard": 3, "inside": 2, "error_s": 0.02, "largest_error_s": 0.1}
    [line] = storm_words.stamps(storms_with(tmp_path, stamps=stamps))
    assert "of 48 servers" in line and "20 ms off (median; at most 100 ms)" in line and "for 32" in line


def test_traces_that_cannot_be_read_are_told_and_not_read_again(tmp_path: Path) -> None:
    documents = {"n=1": [document(1, random.Random(1), counted=COUNTED)]}
    first = beside.traced(tmp_path, str(tmp_path / "nowhere"), documents)
    assert first.why
    assert first == beside.traced(tmp_path, "/", documents)
