"""CPython's own tests of its locks, queues and pools, traced: what is patched behaves as it does without."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.prerequisites import Cannot, cannot
from support.traced_program import CONTEND, PATH

pytestmark = [
    pytest.mark.cannot(
        importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_asyncio") is None,
        Cannot.OWN_TESTS,
    ),
]

# Of those that some builds leave out, the cases are made here.
_MADE = """
from test import _test_multiprocessing
_test_multiprocessing.install_tests_in_module_dict(globals(), "fork")
"""
_POOLS = "test.test_concurrent_futures"
if sys.version_info >= (3, 12):
    _POOLS += ".test_thread_pool"

# Whole files by hand, on 3.11 to 3.13: docs/guides/tracing.md tells what is left of differences.
SAMPLES = {
    "asyncio": ["test.test_asyncio.test_locks", "test.test_asyncio.test_queues"],
    "threading": [
        f"test.test_threading.{name}Tests" for name in ("Event", "Barrier", "BoundedSemaphore", "Condition")
    ],
    "queue": ["test.test_queue.CSimpleQueueTest", "test.test_queue.CQueueTest"],
    "futures": [f"{_POOLS}.ThreadPoolExecutorTest"],
    "multiprocessing": [
        f"made.WithProcessesTest{name}"
        for name in ("Lock", "Semaphore", "Condition", "Event", "Queue", "Barrier")
    ],
}


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_cpythons_own_tests_pass(sample: str, tmp_path: Path) -> None:
    if sample == "futures" and importlib.util.find_spec("test.test_concurrent_futures") is None:
        cannot(Cannot.OWN_TESTS, "of pools")
    (tmp_path / "made.py").write_text(_MADE)
    done = subprocess.run(
        [*CONTEND, "-o", "t", "--", sys.executable, "-m", "unittest", "-q", *SAMPLES[sample]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "OK" in done.stderr and "contend.trace:" not in done.stderr
