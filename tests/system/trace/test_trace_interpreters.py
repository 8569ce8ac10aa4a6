"""One native module for every CPython from 3.11 on: the recorder under each that is on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.ctrace_events import BEGIN, LOCK_ACQUIRED, LOCK_GIVEN_UP, LOCK_RELEASED, LOCK_WAIT, read_all
from support.interpreters import PACKAGE, interpreters
from support.trace_parallel import CALLS, ROUNDS, THREADS

SUPPORT = Path(__file__).parents[2] / "support"


def recorded(version: str, program: str, directory: Path) -> None:
    """Run it under that one, to its end and without a fault."""
    done = subprocess.run(
        [
            interpreters()[version],
            "-X",
            "faulthandler",
            "-W",
            "error::RuntimeWarning",
            str(SUPPORT / program),
            str(directory),
        ],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("version", interpreters())
def test_the_recorder_works_under_every_python(version: str, tmp_path: Path) -> None:
    recorded(version, "trace_smoke.py", tmp_path)
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


@pytest.mark.parametrize("version", interpreters())
def test_threads_that_record_at_once(version: str, tmp_path: Path) -> None:
    """Without the GIL they do: every lock is one lock and has its name, every statement its own, no event is missing."""
    recorded(version, "trace_parallel.py", tmp_path)
    (told,) = read_all(tmp_path)
    assert told.ended and not told.torn and not told.lost
    spans = Counter(span[1] for span in told.spans())
    assert spans.pop("trace_parallel:work", 0) + spans.pop("__main__:work", 0) == THREADS * ROUNDS * CALLS
    assert spans == {
        f"{kind}{number}": THREADS for kind in ("span ", "statement") for number in range(ROUNDS)
    }
    whole = {
        str(event.args["statement"]): event.name
        for event in told.of(BEGIN)
        if event.name.startswith("statement")
    }
    assert whole == {f"statement{number} of many words": f"statement{number}" for number in range(ROUNDS)}
    taken = Counter((event.id, event.name) for event in told.of(LOCK_ACQUIRED))
    assert len(taken) == 2 * ROUNDS, "a lock has one number"
    assert Counter(name for _, name in taken if not name.startswith("again")) == {"Shared.lock": ROUNDS}
    for (_, name), times in taken.items():
        assert times == (THREADS if name == "Shared.lock" else THREADS * CALLS), name
    workers = {track for track, known in told.tracks.items() if known.name.startswith("worker")}
    assert len(workers) == THREADS
    assert {event.value for event in told.of(LOCK_WAIT)} <= workers, "who holds it is one of them"


def test_a_free_threaded_python_is_told_what_is_missing() -> None:
    """It finds the module of the others, and must not load it: here in one that only says that it is free-threaded."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.abiflags = 't'; import contend.trace"],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
    )
    [last] = done.stderr.splitlines()[-1:]
    assert done.returncode == 1 and last.startswith("ImportError: ")
    assert "no native module for this free-threaded" in last
