"""Processes that a failed test left are named and ended; those of a test that passed, and of fixtures that others use,
are not touched."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contend.platforms import procfs

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
LEAVES = """\
import os, pathlib, pytest, subprocess
here = pathlib.Path(__file__).parent
started = []
def start(name, env=None):
    child = subprocess.Popen(["sleep", "300"], start_new_session=True, env=env)
    started.append(child)
    (here / f"{name}.pid").write_text(str(child.pid))
@pytest.fixture(scope="module")
def shared():
    start("shared")
@pytest.fixture
def broken():
    start("broken")
    raise OSError("no more")
def test_passes(): start("passes")
def test_fails(shared):
    start("fails")
    start("cleared", {"PATH": os.environ["PATH"]})
    # Its parent has ended, and it is in a session of its own.
    line = f"setsid sleep 300 & echo $! >{here}/orphan.pid"
    subprocess.run(["sh", "-c", line], check=True)
    assert 1 == 2
def test_never_begins(broken): pass
@pytest.mark.system
def test_again():
    if not (here / "again.pid").exists():
        start("again")
        assert 3 == 4
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    pytester.makeconftest('pytest_plugins = ["support.repeats", "support.left_behind"]')
    pytester.makepyfile(test_it=LEAVES)
    yield pytester
    for path in pytester.path.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["here", "in a process of its own"])
def test_named_and_ended(options: tuple[str, ...], project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess(
        "-q", "-c", str(PYPROJECT), f"--rootdir={project.path}", "-p", "no:cacheprovider", *options, "."
    )
    assert result.parseoutcomes() == {"passed": 2, "failed": 1, "errors": 1, "rerun": 1}
    pids = {path.stem: int(path.read_text()) for path in project.path.glob("*.pid")}
    # An orphan that was killed is a zombie until the init of this place looks for it.
    alive = {name for name, pid in pids.items() if list(procfs.processes([pid]))}
    assert alive == {"passes", "shared"}
    for test, names in {
        "test_fails": ("fails", "cleared", "orphan"),
        "test_never_begins": ("broken",),
        "test_again": ("again",),
    }.items():
        result.stdout.fnmatch_lines([f"left behind, and ended by test_it.py::{test}:"])
        result.stdout.fnmatch_lines_random([f"  process {pids[name]}: sleep 300" for name in names])
