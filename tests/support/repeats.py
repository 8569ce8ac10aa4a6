"""A test of the live machine that fails is run once more, in sight of all; a run has `--max-suite-reruns` of that.

Only tests marked `system` are: what they compare with, others on the host may change meanwhile. The repetition, its
cap over the run and the failures at the end are pytest-rerunfailures', set in pyproject.toml.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)  # after what is left out has been left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A campaign is hours, and counts its own failures."""
    for item in items:
        if item.get_closest_marker("system") and not item.get_closest_marker("accept"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(trylast=True)  # below the failures
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were repeated, and which."""
    repeated = sorted({report.nodeid for report in terminalreporter.getreports("rerun")})
    if not repeated:
        return
    most = terminalreporter.config.getoption("max_suite_reruns")
    terminalreporter.write_line(f"repeated after a failure: {len(repeated)} of {most} that a run may have")
    for name in repeated:
        terminalreporter.write_line(f"  {name}")
    terminalreporter.write_line("Each is a bug to be looked at: its first failure is told above.")
