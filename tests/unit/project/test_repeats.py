"""Which failing tests are run once more, how that is told, and where it ends: this project's own options."""

from __future__ import annotations

from pathlib import Path

import pytest

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
# Fails in its first run, passes in the second: what it noted outlives the repetition.
SHAKY = """\
import pathlib, pytest
here = pathlib.Path(__file__).parent
def once(name):
    seen = here / name
    if not seen.exists():
        seen.touch()
        raise RuntimeError(f"first try of {name}")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project with this one's options and its way of repeating."""
    pytester.makeconftest('pytest_plugins = ["support.repeats"]')
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    """pytest in a process of its own, as `make test` calls it."""
    return project.runpytest_subprocess(
        "-q", "-c", str(PYPROJECT), f"--rootdir={project.path}", "-p", "no:cacheprovider", *options, "."
    )


def shaky(tests: int, marks: str = "@pytest.mark.system\n") -> str:
    return SHAKY + "".join(f"{marks}def test_{n}(): once('test_{n}')\n" for n in range(tests))


def test_repeated_once_and_told(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=shaky(3) + "def test_calm(): pass\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes() == {"passed": 4, "rerun": 3}
    result.stdout.fnmatch_lines_random(
        [
            "repeated after a failure: 3 of 3 that a run may have",
            *(f"  test_it.py::test_{n}" for n in range(3)),
            *(f"RERUN test_it.py::test_{n}" for n in range(3)),
            *(f"*RuntimeError: first try of test_{n}" for n in range(3)),
        ]
    )


def test_a_fourth_has_failed(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=shaky(4))
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"passed": 3, "failed": 1, "rerun": 3}
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_3 - RuntimeError: first try of test_3"])


def test_one_that_fails_twice_has_failed(project: pytest.Pytester) -> None:
    project.makepyfile(test_it="import pytest\n@pytest.mark.system\ndef test_broken(): assert 1 == 2\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"failed": 1, "rerun": 1}


@pytest.mark.parametrize("marks", ["", "@pytest.mark.system\n@pytest.mark.accept\n"])
def test_nothing_else_is_repeated(project: pytest.Pytester, marks: str) -> None:
    project.makepyfile(test_it=shaky(1, marks))
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"failed": 1}
    result.stdout.no_fnmatch_line("repeated after*")


def test_stops_at_the_first_failure_but_not_at_a_repetition(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=shaky(1) + "def test_broken(): assert 1 == 2\ndef test_never(): pass\n")
    result = run(project, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"passed": 1, "failed": 1, "rerun": 1}


def test_fixtures_of_the_module_live_on(project: pytest.Pytester) -> None:
    """What is made once stays made; what failed while it was made or ended is made again."""
    project.makepyfile(
        test_it=SHAKY
        + """
made = []
@pytest.fixture(scope="module")
def shared():
    made.append("shared")
    yield len(made)
    made.append("ended")
@pytest.fixture(scope="module")
def hard():
    once("hard")
@pytest.fixture
def untidy():
    yield
    once("untidy")
pytestmark = pytest.mark.system
def test_first(shared): once("first")
def test_made_again(shared, hard): pass
def test_ends_badly(shared, untidy): pass
def test_last(shared): assert made == ["shared"]
"""
    )
    result = run(project)
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes() == {"passed": 5, "rerun": 3}  # what ended badly had passed before
    result.stdout.fnmatch_lines_random([f"*first try of {name}" for name in ("first", "hard", "untidy")])
