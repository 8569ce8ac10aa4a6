"""No test skips in silence: by support.prerequisites alone, and all that did not run is told at the end of every run.

A skip by any other way is a failure where CI is set.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

from support.prerequisites import SAID, cannot, need


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(condition, reason): as support.prerequisites.need")
    config.addinivalue_line(
        "markers", "cannot(condition, why): as support.prerequisites.cannot, where it holds"
    )


@pytest.hookimpl(tryfirst=True)  # before fixtures that may need the same
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("cannot"):
        if mark.args[0]:
            cannot(mark.args[1])
    for mark in item.iter_markers("needs"):
        need(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI") and not reason(report).startswith(SAID):
        report.outcome = "failed"
        report.longrepr = (
            f"it skipped itself: {reason(report)}\n  use need or cannot of support.prerequisites"
        )
    return report


def reason(report: pytest.TestReport) -> str:
    """Why a test was skipped."""
    told = report.longrepr
    return str(told[2]).removeprefix("Skipped: ") if isinstance(told, tuple) else str(told)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = Counter(map(reason, terminalreporter.getreports("skipped")))
    terminalreporter.section(f"did not run: {sum(skipped.values())}")
    for why, count in skipped.most_common():
        terminalreporter.write_line(f"{count:6d}  {why}")
