"""Which test runs which line of the mutated code, by coverage.py: a mutant is tried with these tests only.

What the fixtures of a test run is put down to all tests of its file, since a fixture may be shared.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage

from mutation.session import FAILED, PASSED, Fork, Session, all_ended, ended, start
from mutation.targets import PYTHON, ROOT, Target

KEPT = ROOT / "target" / "mutants" / "covering"
CALL, AROUND = "call", "around"
MOST_CPU_S, MOST_WALL_S = 300, 3000


@dataclass(frozen=True)
class Covering:
    """Of a target's tests: the CPU time of each, which lines each runs, which failed with nothing mutated."""

    cpu_s: dict[str, float]
    lines: dict[str, dict[int, frozenset[str]]]
    failed: tuple[str, ...]

    def of(self, path: str, lines: tuple[int, int]) -> list[str]:
        """The tests that run one of these lines, the cheapest first."""
        of_file = self.lines.get(path, {})
        found = {test for line in range(lines[0], lines[1] + 1) for test in of_file.get(line, ())}
        return self._cheapest_first(found)

    def of_file(self, path: str) -> list[str]:
        """All tests of the test files of which one runs something of this file."""
        files = {test.partition("::")[0] for tests in self.lines.get(path, {}).values() for test in tests}
        return self._cheapest_first(test for test in self.cpu_s if test.partition("::")[0] in files)

    def _cheapest_first(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.cpu_s[test], test))


def covering(target: Target, session: Session, jobs: int) -> Covering:
    """Measured for each test file whose answer is not kept from before, of the same code and the same test."""
    KEPT.mkdir(parents=True, exist_ok=True)
    shared = _shared()
    by_file: dict[str, list[str]] = defaultdict(list)
    for name in session.items:
        by_file[name.partition("::")[0]].append(name)
    missing = [path for path in by_file if not _kept_at(path, shared).exists()]
    running: list[Fork] = []
    with all_ended(running):
        while missing or running:
            while missing and len(running) < jobs:
                path = missing.pop(0)
                print(f"  which lines {path} runs", flush=True)
                names, to = by_file[path], _kept_at(path, shared)
                running.append(
                    start(
                        functools.partial(_measure, session, names, to),
                        MOST_CPU_S,
                        MOST_WALL_S,
                        path,
                    )
                )
            for fork, code, log in ended(running):
                if code not in (PASSED, FAILED):
                    raise RuntimeError(f"{fork.tag} ended with {code}: {log[-2000:]}")
            time.sleep(0.02)
    return _joined(json.loads(_kept_at(path, shared).read_text(encoding="utf-8")) for path in by_file)


def _joined(told: Iterable[dict[str, Any]]) -> Covering:
    cpu_s: dict[str, float] = {}
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    failed: list[str] = []
    for of_file in told:
        passed = {test: cost for test, cost in of_file["cpu_s"].items() if test not in of_file["failed"]}
        failed += of_file["failed"]
        cpu_s |= passed
        for path, by_line in of_file["lines"].items():
            for line, tests in by_line.items():
                for test in tests:
                    name, _, when = test.rpartition("|")
                    lines[path][int(line)] |= {name} & passed.keys() if when == CALL else passed.keys()
    return Covering(
        cpu_s,
        {path: {line: frozenset(of) for line, of in by.items()} for path, by in lines.items()},
        tuple(failed),
    )


class _Contexts:
    """A plugin of pytest that tells coverage whose lines these are."""

    def __init__(self, cov: coverage.Coverage) -> None:
        self.cov = cov
        self.cpu_s: dict[str, float] = {}
        self.failed: set[str] = set()
        self._began = 0.0

    def pytest_runtest_setup(self, item: Any) -> None:
        self._began = _cpu_s()
        self.cov.switch_context(f"{item.nodeid}|{AROUND}")

    def pytest_runtest_call(self, item: Any) -> None:
        self.cov.switch_context(f"{item.nodeid}|{CALL}")

    def pytest_runtest_teardown(self, item: Any) -> None:
        self.cpu_s[item.nodeid] = _cpu_s() - self._began
        self.cov.switch_context(f"{item.nodeid}|{AROUND}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def _measure(session: Session, names: list[str], to: Path, place: Path) -> int:
    code = [str(file) for target in PYTHON for file in target.code_files()]
    cov = coverage.Coverage(data_file=None, include=code, config_file=False)
    cov.set_option("run:disable_warnings", ["no-data-collected"])  # of a file that reaches nothing of it
    contexts = _Contexts(cov)
    cov.start()
    status = session.run(place, names, [contexts], first=False)
    cov.stop()
    data = cov.get_data()
    lines = {
        str(Path(file).relative_to(ROOT)): {
            line: [name for name in of if name] for line, of in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    part = to.with_suffix(".part")
    told = {"cpu_s": contexts.cpu_s, "failed": sorted(contexts.failed), "lines": lines}
    part.write_text(json.dumps(told), encoding="utf-8")
    part.replace(to)
    return status


def _shared() -> str:
    """What every answer depends on: the package, and what tests share."""
    told = hashlib.sha256()
    places = [ROOT / "python" / "contend", ROOT / "tests" / "support"]
    for path in sorted(file for place in places for file in place.rglob("*.py")) + [
        ROOT / "tests/conftest.py"
    ]:
        told.update(path.read_bytes())
    return told.hexdigest()


def _kept_at(path: str, shared: str) -> Path:
    told = hashlib.sha256(f"{path}|{shared}".encode() + (ROOT / path).read_bytes())
    return KEPT / f"{told.hexdigest()[:24]}.json"


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
