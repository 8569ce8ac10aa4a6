"""The tracer and the core under the Pythons of Debian 13 and of sid, each in a root of its own (support.chroots).

What is tested is this checkout and its one native module. `make accept` runs more of it: tests/accept/test_interpreters.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from contend.probes.client import installed
from support import chroots

ROOT = Path(__file__).parents[3]
PACKAGES = ("pytest", "pytest-xdist", "pytest-timeout", "pytest-rerunfailures", "hypothesis", "jsonschema")
# Of each module that depends on the interpreter the quick tests; what needs a browser, a broker or greenlets is not here.
FILES = (
    "tests/unit/trace/test_trace_calls.py",
    "tests/unit/trace/test_trace_handlers.py",
    "tests/unit/trace/test_trace_locks.py",
    "tests/unit/trace/test_trace_marks.py",
    "tests/unit/store/test_ctrace_interpreter.py",
    "tests/unit/engine/test_plan.py",
    "tests/unit/engine/test_rounds.py",
    "tests/unit/store/test_store.py",
    "tests/unit/studies/test_scenario.py",
    "tests/unit/studies/test_rules.py",
    "tests/system/trace/test_trace_interpreters.py",
    "tests/system/trace/test_trace_stdlib.py",
    "tests/system/trace/test_trace_attach_asked.py",
)
LEAST = 150

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs(not chroots.lacks(), chroots.lacks()),
    pytest.mark.timeout(1200),  # on a machine that has never made these roots
]


@pytest.mark.parametrize(("suite", "version"), [("trixie", (3, 13)), ("sid", (3, 14))])
def test_the_tracer_and_the_core(suite: str, version: tuple[int, int], tmp_path: Path) -> None:
    root = chroots.made(suite)
    python = chroots.environment(root, chroots.requirements(PACKAGES))
    told = chroots.run(root, [python, "-c", "import sys; print(*sys.version_info[:2])"], timeout=60)
    assert tuple(map(int, told.stdout.split())) >= version, told.stderr
    done = chroots.run(
        root,
        [python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *FILES],
        env={
            "PYTHONPATH": os.pathsep.join((str(ROOT / "python"), str(ROOT / "tests"))),
            "CONTEND_PROBE": str(installed()),
        },
        timeout=1000,
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed, done.stdout[-8000:] + done.stderr[-2000:]
    assert int(passed[1]) >= LEAST
