"""A wait's recorded holder is who held the lock, by the notes of a program that knows. `tests/accept` has the campaign."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from support.holders import campaign
from support.prerequisites import need


@pytest.mark.parametrize("kind", ["threads", "greenlets"])
def test_the_recorded_holder_is_the_real_one(kind: str, tmp_path: Path) -> None:
    need(kind == "threads" or importlib.util.find_spec("greenlet"), "pip install greenlet")
    tally = campaign(kind, 1, 300 if kind == "threads" else 100, tmp_path)
    assert tally.waits > 200 and tally.certain > tally.waits * 0.5, tally
    assert not tally.wrong, tally.wrong[:5]
