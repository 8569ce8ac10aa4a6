"""Processes that a failed test leaves are named and ended, so that it is the only one to fail.

They are known by PYTEST_CURRENT_TEST, which pytest sets to the test that runs and what it starts inherits; those that
were given another environment, by being descendants of this process and younger than the test. What a fixture of a
module or a session starts is not its first test's: it is told by another value of that variable.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from contend.platforms import procfs

VARIABLE = "PYTEST_CURRENT_TEST"
TITLE = "left behind, and ended"
BEGUN = pytest.StashKey[int]()
FAILED = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Fixtures that outlive a test have their own name in what they start."""
    test = os.environ.get(VARIABLE)
    if fixturedef.scope == "function" or test is None:
        return (yield)
    os.environ[VARIABLE] = f"{fixturedef.argname} (fixture of a {fixturedef.scope})"
    try:
        return (yield)
    finally:
        os.environ[VARIABLE] = test


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEGUN] = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After its fixtures have ended too."""
    report = yield
    if report.failed:
        item.stash.setdefault(FAILED, report)
    if call.when == "teardown" and FAILED in item.stash:
        first = item.stash[FAILED]
        del item.stash[FAILED]  # it may be repeated
        if lines := end_all(item.nodeid, item.stash.get(BEGUN, None)):
            for told in {id(first): first, id(report): report}.values():
                told.sections.append((TITLE, "\n".join(lines)))
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of each test that did: where tests run in processes of their own, its failure was told before this was known."""
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    told = {
        report.nodeid: text
        for report in reports
        for title, text in getattr(report, "sections", ())
        if title == TITLE
    }
    for nodeid, text in told.items():
        terminalreporter.write_line(f"{TITLE} by {nodeid}:")
        for line in text.splitlines():
            terminalreporter.write_line(f"  {line}")


def end_all(nodeid: str, begun_ticks: int | None) -> list[str]:
    """End what that test left; one line for each: its number and its command."""
    found: dict[int, str] = {}

    def left() -> set[int]:
        pids = of_test(nodeid, begun_ticks)
        for pid in pids:
            found.setdefault(pid, _command(pid))
        return pids

    procfs.kill_until_gone(left)
    return [f"process {pid}: {command}" for pid, command in found.items()]


def of_test(nodeid: str, begun_ticks: int | None) -> set[int]:
    """Live processes that the test started, and theirs; `begun_ticks`: since boot, None when it never began."""
    ours = procfs.descendants(os.getpid())
    found = set()
    for process in procfs.processes():
        mark = _mark(process.pid)
        young = begun_ticks is not None and process.start_ticks >= begun_ticks
        if mark == nodeid if mark else (process.pid in ours and young):
            found |= {process.pid, *procfs.descendants(process.pid)}
    return found - procfs.ancestors(os.getpid())


def _mark(pid: int) -> str:
    """The test, or fixture, in the process's environment; "" without one."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
    found = [entry for entry in environ.split("\0") if entry.startswith(f"{VARIABLE}=")]
    return found[0].removeprefix(f"{VARIABLE}=").rpartition(" (")[0] if found else ""


def _command(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "gone"
    return line.replace(b"\0", b" ").decode(errors="replace").strip()[:200]
