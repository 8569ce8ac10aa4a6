"""What a run of the tests cost, by kind and by file, in wall time and in CPU time.

CPU time is of the process that runs the test and of the children that it has waited for: a daemon that outlives its
test is not counted. So the last line has what all processes of the host took meanwhile too, those that are none of the
tests' included. `--costs FILE` writes the figures of every test.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from support import quick_start

CPU = "cpu_s"
MOST = 12
COSTS = Path(__file__).parents[1] / "costs.json"
"""What each test function took once. `pytest --took FILE` writes it."""
LEAST_S = 0.25
"""A function of which a case takes less, on the clock and of CPUs, is not in that file."""
BEGAN = pytest.StashKey[float]()
WALL = pytest.StashKey[float]()
HOST = pytest.StashKey[float]()


class Took(NamedTuple):
    """What a case of a test function takes."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@dataclass
class Cost:
    """Of one test, of a file's, or of a kind's: times in s."""

    tests: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.tests += report.when == "call"
        self.wall_s += report.duration
        self.cpu_s += getattr(report, CPU, 0.0)

    def __str__(self) -> str:
        return f"{self.tests:6d} tests {self.wall_s:8.1f} s {self.cpu_s:8.1f} CPU-s"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, metavar="FILE", help="write what each test cost, as JSON")
    parser.addoption(
        "--took",
        type=Path,
        metavar="FILE",
        help="write what each function took: tests/costs.json, for the order and for samples",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WALL] = time.monotonic()
    config.stash[HOST] = host_s()


def used_s() -> float:
    """CPU seconds of this process, of its ended children and of what it had started by a fork, so far."""
    own_s = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return own_s + quick_start.cpu_s()


def host_s() -> float:
    """CPU seconds of all processes of this host, so far: of users and of the kernel for them; guests are in the former."""
    user, nice, system = map(int, Path("/proc/stat").read_text(encoding="ascii").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEGAN] = used_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    now = used_s()
    setattr(
        report, CPU, now - item.stash[BEGAN]
    )  # with the report it reaches the process that hands tests out
    item.stash[BEGAN] = now
    return report


def kind(nodeid: str) -> str:
    """
    >>> kind("tests/unit/stats/test_ratio.py::test_a"), kind("python/contend/units.py::contend.units")
    ('unit', 'examples of docstrings')
    """
    first, second, *_ = nodeid.split("/")
    return second if first == "tests" else "examples of docstrings"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for of_kind in terminalreporter.stats.values()
        for report in of_kind
        if isinstance(report, pytest.TestReport)
    ]
    each: dict[str, Cost] = defaultdict(Cost)
    for report in {id(report): report for report in reports}.values():
        each[report.nodeid].add(report)
    kinds: dict[str, Cost] = defaultdict(Cost)
    files: dict[str, Cost] = defaultdict(Cost)
    for nodeid, cost in each.items():
        for of, name in ((kinds, kind(nodeid)), (files, nodeid.partition("::")[0])):
            of[name].tests += cost.tests
            of[name].wall_s += cost.wall_s
            of[name].cpu_s += cost.cpu_s
    line = terminalreporter.write_line
    terminalreporter.section("what it cost")
    for name, cost in sorted(kinds.items()):
        line(f"{cost}  {name}")
    whole_s = time.monotonic() - terminalreporter.config.stash[WALL]
    line(f"{_sum(kinds)}  of all, in {whole_s:.0f} s on the clock")
    of_host = host_s() - terminalreporter.config.stash[HOST]
    line(
        f"{of_host:.1f} CPU-s of all that ran on this host meanwhile: daemons of the tests, and others' work"
    )
    line(f"the {MOST} files that took most CPU time, and the {MOST} tests that took longest:")
    for name, cost in sorted(files.items(), key=lambda pair: -pair[1].cpu_s)[:MOST]:
        line(f"{cost}  {name}")
    for name, cost in sorted(each.items(), key=lambda pair: -pair[1].wall_s)[:MOST]:
        line(f"{cost.wall_s:8.1f} s {cost.cpu_s:8.1f} CPU-s  {name}")
    if (file := terminalreporter.config.getoption("costs")) is not None:
        of_each = {
            nodeid: {"wall_s": round(cost.wall_s, 3), "cpu_s": round(cost.cpu_s, 3)}
            for nodeid, cost in each.items()
        }
        file.write_text(json.dumps(of_each, indent=1) + "\n", encoding="utf-8")
    if (file := terminalreporter.config.getoption("took")) is not None:
        file.write_text(took(each), encoding="utf-8")


def took(each: Mapping[str, Cost]) -> str:
    """The text of tests/costs.json. What did not run stays as it was."""
    functions: dict[str, list[Cost]] = defaultdict(list)
    for nodeid, cost in each.items():
        functions[function_of(nodeid)].append(cost)
    means = known() | {
        name: Took(
            round(sum(cost.cpu_s for cost in of) / len(of), 2),
            round(sum(cost.wall_s for cost in of) / len(of), 2),
        )
        for name, of in functions.items()
    }
    lines = ",\n".join(
        f"  {json.dumps(name)}: {[*mean]}" for name, mean in sorted(means.items()) if max(mean) >= LEAST_S
    )
    what = "of test functions that take long: CPU s and wall s of a case (support.turns, support.samples)"
    return f'{{\n "what": {json.dumps(what)},\n "functions": {{\n{lines}\n }}\n}}\n'


def known() -> dict[str, Took]:
    """What a case of each function took once; those that are not in there took next to nothing."""
    if not COSTS.exists():
        return {}
    functions = json.loads(COSTS.read_text(encoding="utf-8"))["functions"]
    return {name: Took(*mean) for name, mean in functions.items()}


def function_of(nodeid: str) -> str:
    """
    >>> function_of("tests/unit/test_a.py::test_b[c::d]")
    'tests/unit/test_a.py::test_b'
    """
    return nodeid.partition("[")[0]


def _sum(kinds: dict[str, Cost]) -> Cost:
    costs = list(kinds.values())
    return Cost(sum(c.tests for c in costs), sum(c.wall_s for c in costs), sum(c.cpu_s for c in costs))
