"""Tests that fail are named when they do, not only at the end: a run that is cut short has no end.

And they are named briefly: where CI is set, pytest's own summary gives each failure's whole message, which may be a page.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

MOST = 200  # characters of a failure's message


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if (crash := getattr(report.longrepr, "reprcrash", None)) is not None:
        crash.message = crash.message.partition("\n")[0][:MOST]
    return report


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Where there is a terminal reporter: processes that only run tests (pytest-xdist's) have none."""
    if (reporter := config.pluginmanager.get_plugin("terminalreporter")) is not None:
        config.pluginmanager.register(Told(reporter), "told-at-once")


class Told:
    """One line for each failure, below the row of dots in which it stands."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter

    @pytest.hookimpl(trylast=True)  # after its letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome in ("failed", "rerun"):
            crash = getattr(report.longrepr, "reprcrash", None)
            why = f": {crash.message}" if crash is not None else ""
            self.reporter.write_line(f"\n{report.outcome} in {report.when}: {report.nodeid}{why}")
