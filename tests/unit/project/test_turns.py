"""Which tests run beside each other, in processes as `make test` starts them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.turns import order

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
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


def run(project: pytest.Pytester, processes: int = 2, **files: str) -> dict[str, tuple[int, int]]:
    """Run them in so many processes; when each test ran, ns."""
    project.makepyfile(**{name: MEET + text for name, text in files.items()})
    shared = ("-n", str(processes), "--dist", "loadscope", "--no-loadscope-reorder")
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
    """Also where a test has another name too, by which it is handed to another process."""
    shared = "@pytest.mark.parametrize('n', range(4))\ndef test_it(n): ran(f'{0}{{n}}')\n"
    told = run(
        project,
        test_a="@pytest.mark.one_of('thing')\n" + shared.format("a"),
        test_b="@pytest.mark.one_of('another')\n@pytest.mark.one_of('thing')\n" + shared.format("b"),
    )
    things = [told[f"{file}{n}"] for file in "ab" for n in range(4)]
    assert all(apart(one, other) for n, one in enumerate(things) for other in things[:n]), told


def test_what_is_one_at_a_time_is_handed_to_one_process(project: pytest.Pytester) -> None:
    """Else the others would wait for it, and not for what they test."""
    who = (
        "import os\n@pytest.mark.one_of('thing')\ndef test_{0}():\n"
        " ran('{0}')\n (here / f'{0}.{{os.getpid()}}.by').touch()\n"
    )
    run(project, **{f"test_{n}": who.format(f"t{n}") + f"def test_x{n}(): ran('x{n}')\n" for n in range(4)})
    processes = {path.name.split(".")[1] for path in project.path.glob("*.by")}
    assert len(processes) == 1


def test_what_burns_has_a_cpu_and_what_waits_needs_none(project: pytest.Pytester) -> None:
    """Of four processes, those with a test that burns are at most as many as CPUs; tests of the live machine go on."""
    burn = "def test_{0}(): ran('{0}')\n"
    wait = "@pytest.mark.system\ndef test_{0}(): meet('{0}', '{1}')\n"
    files = {f"test_burn{n}": burn.format(f"burn{n}") for n in range(8)}
    meets = {"test_one": wait.format("one", "other"), "test_other": wait.format("other", "one")}
    told = run(project, 4, **files, **meets)
    moments = sorted(began for name, (began, _) in told.items() if name.startswith("burn"))
    beside = [
        sum(told[name][0] <= moment <= told[name][1] for name in told if name.startswith("burn"))
        for moment in moments
    ]
    assert max(beside) <= max(2, len(os.sched_getaffinity(0)))
    assert len(told) == 10


@pytest.mark.parametrize(
    ("scopes", "wanted"),
    [
        ([("short", 1, False, False), ("long", 9, False, False)], ["long", "short"]),
        ([("alone", 9, True, False), ("last", 1, False, True)], ["last", "alone"]),
        (
            [(f"w{n}", 10, False, False) for n in range(4)] + [(f"b{n}", 1, False, True) for n in range(4)],
            ["w0", "b0", "w1", "b1", "w2", "b2", "w3", "b3"],
        ),
    ],
)
def test_the_longest_is_first_and_what_burns_is_amid_what_waits(
    scopes: list[tuple[str, float, bool, bool]], wanted: list[str]
) -> None:
    assert order(scopes) == wanted
