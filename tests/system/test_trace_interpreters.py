"""One native module for every CPython from 3.11 on: the recorder under each that is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.ctrace_events import BEGIN, LOCK_ACQUIRED, LOCK_GIVEN_UP, LOCK_RELEASED, LOCK_WAIT, read_all

pytestmark = pytest.mark.system

SMOKE = Path(__file__).parents[1] / "support" / "trace_smoke.py"
PACKAGE = Path(__file__).parents[2] / "python"
NEWEST = 20
ABOUT = (
    "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
)


def interpreters() -> dict[str, str]:
    """Version → path: python3.X on PATH, and what CONTEND_TEST_PYTHONS names (paths, separated as in PATH)."""
    named = filter(None, os.environ.get("CONTEND_TEST_PYTHONS", "").split(os.pathsep))
    on_path = (shutil.which(f"python3.{minor}") for minor in range(11, NEWEST))
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    for path in [*named, *on_path]:
        told = path and subprocess.run([path, "-I", "-c", ABOUT], capture_output=True, text=True)
        if told and told.returncode == 0:
            major, minor, free_threaded = map(int, told.stdout.split())
            if (major, minor) >= (3, 11) and not free_threaded:
                found.setdefault(f"{major}.{minor}", str(path))
    return found


@pytest.mark.parametrize("version", interpreters())
def test_the_recorder_works_under_every_python(version: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            interpreters()[version],
            "-X",
            "faulthandler",
            "-W",
            "error::RuntimeWarning",
            str(SMOKE),
            str(tmp_path),
        ],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    for number in range(3):
        traces = read_all(tmp_path / str(number))
        assert len(traces) == 2 and all(told.ended and not told.torn and not told.lost for told in traces)
        child, parent = sorted(traces, key=lambda told: len(told.events))
        assert [span[1] for span in child.spans()] == ["__main__:function", "in child"]
        names = [span[1] for span in parent.spans()]
        assert names.count("__main__:function") == 300 and names.count("__main__:Owner.method") == 300
        assert names.count("__main__:task") == 10 and names.count("__main__:steps") == 2
        assert sum(span[4] for span in parent.spans()) == 1
        taken = [event for event in parent.of(LOCK_ACQUIRED) if event.name == "plain"]
        assert len(taken) == 4 * 200 * 2 + 1
        assert len(parent.of(LOCK_ACQUIRED)) == len(parent.of(LOCK_RELEASED))
        assert parent.of(LOCK_WAIT) and len(parent.of(LOCK_GIVEN_UP)) == 1
        [root] = [event for event in parent.of(BEGIN) if event.name == "all"]
        assert root.args["number"] == number and ("cpu" in root.args) == (number == 1)
        assert ("run delay" in root.args) == (number == 2)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        ("sys.abiflags = 't'; sys.meta_path.insert(0, Nothing())", "no native module for this free-threaded"),
        ("sys._is_gil_enabled = lambda: False", "(GIL), which is off"),
    ],
)
def test_a_free_threaded_python_is_told_what_is_missing(build: str, told: str) -> None:
    """There is none here: what such a build answers is set in one that has the lock."""
    code = (
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'contend._native': raise ModuleNotFoundError(f'No module named {name}', name=name)\n"
        f"{build}\n"
        "import contend.trace"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
    )
    [last] = done.stderr.splitlines()[-1:]
    assert done.returncode == 1 and last.startswith("ImportError: ") and told in last
