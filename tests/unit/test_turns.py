"""Which tests run beside each other, in processes as `make test` starts them."""

from __future__ import annotations

from pathlib import Path

import pytest

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# Each test says when it ran. Two of them wait until both are there: they can only end beside each other.
MEET = """\
import pathlib, pytest, time
here = pathlib.Path(__file__).parent
def ran(name):
    began = time.monotonic_ns()
    time.sleep(0.05)
    (here / f"{name}.ran").write_text(f"{began} {time.monotonic_ns()}")
def meet(name, other):
    (here / name).touch()
    deadline = time.monotonic() + 60
    while not (here / other).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ran(name)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest('pytest_plugins = ["support.turns"]')
    return pytester


def run(project: pytest.Pytester, **files: str) -> dict[str, tuple[int, int]]:
    """Run them in two processes; when each test ran, ns."""
    project.makepyfile(**{name: MEET + text for name, text in files.items()})
    shared = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")
    result = project.runpytest_subprocess(
        "-q", "-c", str(PYPROJECT), f"--rootdir={project.path}", "-p", "no:cacheprovider", *shared, "."
    )
    assert result.ret == pytest.ExitCode.OK
    told = {path.stem: path.read_text().split() for path in project.path.glob("*.ran")}
    return {name: (int(began), int(ended)) for name, (began, ended) in told.items()}


def apart(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def test_what_is_alone_runs_beside_nothing_and_the_rest_beside_each_other(project: pytest.Pytester) -> None:
    alone = "@pytest.mark.alone\ndef test_{0}(): ran('{0}')\n" + (
        "from support.turns import alone\n"
        "@pytest.fixture(scope='module')\n"
        "def made(request):\n with alone(request.config): ran('{0}-fixture')\n"
        "def test_reads(made): ran('{0}-reads')\n"
    )
    several = "".join(f"def test_{{0}}{n}(): ran('{{0}}{n}')\n" for n in range(5))
    told = run(
        project,
        test_a=alone.format("alone1") + "def test_meet(): meet('a', 'b')\n" + several.format("x"),
        test_b=alone.format("alone2") + "def test_meet(): meet('b', 'a')\n" + several.format("y"),
    )
    assert len(told) == 18
    for name in ("alone1", "alone2", "alone1-fixture", "alone2-fixture"):
        assert all(apart(told[name], told[other]) for other in told if other != name), told


def test_what_is_alone_is_handed_out_after_all_that_is_not(project: pytest.Pytester) -> None:
    """Also after what stands in files that come later than its own. A process has its next three tests in advance."""
    alone = "@pytest.mark.alone\ndef test_{0}(): ran('{0}')\ndef test_{1}(): ran('{1}')\n"
    later = {f"test_c{n}": f"def test_y{n}(): ran('y{n}')\n" for n in range(8)}
    told = run(project, test_a=alone.format("alone1", "x1"), test_b=alone.format("alone2", "x2"), **later)
    assert len(told) == 12
    ended = [ended for name, (_, ended) in told.items() if not name.startswith("alone")]
    for name in ("alone1", "alone2"):
        assert sum(moment < told[name][0] for moment in ended) >= len(ended) - 3, told


def test_of_one_name_there_is_one_at_a_time(project: pytest.Pytester) -> None:
    shared = "@pytest.mark.one_of('thing')\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n): ran(f'{0}{{n}}')\n"
    meet = "def test_meet(): meet('{0}', '{1}')\n"
    told = run(
        project,
        test_a=meet.format("first", "second") + shared.format("a"),
        test_b=meet.format("second", "first") + shared.format("b"),
    )
    things = [told[f"{file}{n}"] for file in "ab" for n in range(4)]
    assert all(apart(one, other) for n, one in enumerate(things) for other in things[:n]), told
