"""What does not run is told, and where CI is set nothing is left out in silence."""

from __future__ import annotations

import pytest

from support.prerequisites import SAID, Cannot

TESTS = """
import pytest
from support.prerequisites import Cannot, cannot, need

def test_silent(): pytest.skip("not today")
@pytest.mark.skipif(True, reason="nor tomorrow")
def test_marked(): pass
def test_needs(): need(False, "a moon")
@pytest.mark.needs(False, "a sun")
def test_needs_by_mark(): pass
@pytest.mark.needs(True, "air")
def test_has(): pass
def test_cannot(): cannot(Cannot.PYTHON_3_14)
@pytest.mark.cannot(True, Cannot.OPEN_VSWITCH)
def test_cannot_by_mark(): pass
"""


@pytest.mark.parametrize(("ci", "failed", "skipped"), [("true", 2, 2), ("", 0, 6)])
def test_only_what_is_listed_is_left_out(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, failed: int, skipped: int
) -> None:
    monkeypatch.setenv("CI", ci)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "support.skips", "-p", "no:support.costs")
    done.assert_outcomes(passed=1, failed=failed, errors=failed, skipped=skipped)
    done.stdout.fnmatch_lines([f"*did not run: {skipped}*", f"*1  {SAID}{Cannot.PYTHON_3_14.value}"])
    if ci:
        done.stdout.fnmatch_lines(["*it skipped itself: not today", "*missing prerequisite: a moon*"])


def test_the_list_of_what_cannot_run_here_does_not_grow_unseen() -> None:
    assert len(Cannot) == 6
