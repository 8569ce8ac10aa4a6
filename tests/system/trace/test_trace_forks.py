"""Processes that fork, become daemons or execute others while they record: a file for each that records."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.ctrace_events import (
    BEGIN,
    INSTANT,
    LOCK_ACQUIRED,
    LOCK_RELEASED,
    read,
    read_all,
    record,
    run,
)


def test_fork_in_the_midst_of_spans_and_locks(tmp_path: Path) -> None:
    run(
        """
        import os, threading, time
        lock = trace.Lock(name="L")
        stop = threading.Event()
        def noise():
            while not stop.is_set():
                with trace.span("noise"), lock: pass
                time.sleep(1e-4)  # or there are millions of them on a slow host
        @trace.traced(name="forks")
        def forks(depth):
            with trace.span("inner"):
                pid = os.fork()
                if pid == 0:
                    lock._at_fork_reinit()
                    if depth: forks(depth - 1)
                    with trace.span("child", depth=depth), lock: pass
                    trace.stop()
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
        trace.start(DIRECTORY)
        threads = [threading.Thread(target=noise) for _ in range(3)]
        for t in threads: t.start()
        for _ in range(15): forks(2)
        stop.set()
        for t in threads: t.join()
        trace.stop()
        """,
        tmp_path,
    )
    traces = {told.pid: told for told in read_all(tmp_path)}
    assert len(traces) == 1 + 15 * 3
    assert all(told.ended and not told.torn and told.lost == 0 for told in traces.values())
    parent = next(told for told in traces.values() if told.parent not in traces)
    assert sum(span[1] == "forks" for span in parent.spans()) == 15
    children = [told for told in traces.values() if told is not parent]
    for told in children:
        names = [span[1] for span in told.spans()]
        assert names.count("child") == 1 and "noise" not in names
        assert told.tracks[told.of(BEGIN)[0].track].tid == told.pid


def test_a_child_that_only_executes_leaves_no_file(tmp_path: Path) -> None:
    run(
        """
        import os, subprocess
        trace.start(DIRECTORY)
        subprocess.run(["true"], check=True)
        subprocess.run(["true"], check=True, preexec_fn=lambda: None)
        if os.fork() == 0: os.execvp("true", ["true"])
        os.wait()
        trace.stop()
        """,
        tmp_path,
    )
    assert len(read_all(tmp_path)) == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_ends_its_files(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import multiprocessing, sys
from contend import trace

@trace.traced(name="work")
def work(number):
    if {method!r} != "fork" and not trace.status().recording:
        trace.start(sys.argv[1])
    with trace.span("in"): return number * 2

if __name__ == "__main__":
    trace.start(sys.argv[1])
    with multiprocessing.get_context({method!r}).Pool(3) as pool:
        assert pool.map(work, range(30), chunksize=1) == [2 * n for n in range(30)]
        pool.close(); pool.join()
    child = multiprocessing.get_context({method!r}).Process(target=work, args=(1,))
    child.start(); child.join()
    trace.stop()
"""
    )
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "t")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    traces = read_all(tmp_path / "t")
    assert sum(span[1] == "in" for told in traces for span in told.spans()) == 31
    assert len(traces) >= 3 and all(told.ended for told in traces)


def test_a_daemon_that_closes_every_file(tmp_path: Path) -> None:
    """As python-daemon does: its files are closed, and their numbers go to other files."""
    told = record(
        """
        import os, time
        trace.start(DIRECTORY)
        trace.instant("before")
        trace.flush()
        os.closerange(3, 256)
        own = [open(DIRECTORY + f"/own-{n}", "w") for n in range(20)]
        for _ in range(3):
            trace.instant("after")
            time.sleep(0.3)
        trace.stop()
        for file in own: file.close()
        """,
        tmp_path,
    )
    assert [event.name for event in told.of(INSTANT)] == ["before", *["after"] * 3] and told.ended
    assert all(path.stat().st_size == 0 for path in tmp_path.glob("own-*"))


def test_daemonised(tmp_path: Path) -> None:
    run(
        """
        import os, time
        trace.start(DIRECTORY)
        trace.instant("parent"); trace.flush()
        if os.fork(): os._exit(0)
        os.setsid()
        if os.fork(): os._exit(0)
        os.chdir("/"); os.closerange(0, 256)
        for number in (0, 1, 2): os.open(os.devnull, os.O_RDWR)
        for _ in range(4): trace.instant("daemon"); time.sleep(0.1)
        """,
        tmp_path,
    )
    until = time.monotonic() + 20
    while time.monotonic() < until:
        traces = read_all(tmp_path)
        if len(traces) == 2 and any(told.ended for told in traces):
            break
        time.sleep(0.05)
    [daemon] = [told for told in read_all(tmp_path) if told.ended]
    assert [event.name for event in daemon.of(INSTANT)] == ["daemon"] * 4


def test_a_program_that_becomes_another(tmp_path: Path) -> None:
    """execve(2) ends every thread, the writer too: the first file is whole up to its last spill, the next is another."""
    run(
        """
        import os
        trace.start(DIRECTORY)
        if len(sys.argv) == 2:
            with trace.span("first"): pass
            trace.flush()
            with trace.span("open"):
                code = "import sys; from contend import trace; trace.start(sys.argv[1]); trace.instant('second')"
                os.execv(sys.executable, [sys.executable, "-c", code, DIRECTORY])
        """,
        tmp_path,
    )
    first, second = sorted(tmp_path.glob("*.ctrace"), key=lambda path: len(path.name))
    assert second.name == first.stem + "-2.ctrace"
    before, after = read(first), read(second)
    assert not before.ended and not before.torn and [span[1] for span in before.spans()] == ["first"]
    assert after.ended and [event.name for event in after.of(INSTANT)] == ["second"]


def test_children_that_share_memory_until_they_execute(tmp_path: Path) -> None:
    """posix_spawn and subprocess use vfork(2) where they can: the child must not touch the parent's recording."""
    told = record(
        """
        import os, subprocess, threading
        lock = trace.Lock()
        def noise():
            while not done:
                with trace.span("noise"), lock: pass
        done = False
        trace.start(DIRECTORY, overflow="block")
        thread = threading.Thread(target=noise); thread.start()
        for _ in range(20):
            with trace.span("spawn"):
                pid = os.posix_spawn("/bin/true", ["true"], os.environ)
                assert os.waitpid(pid, 0)[1] == 0
                assert subprocess._USE_VFORK and subprocess.run(["true"]).returncode == 0
        done = True
        thread.join()
        trace.stop()
        """,
        tmp_path,
    )
    assert sum(span[1] == "spawn" for span in told.spans()) == 20 and told.ended and told.lost == 0


def test_what_a_child_names_before_its_first_event_is_in_its_file(tmp_path: Path) -> None:
    run(
        """
        import os
        trace.start(DIRECTORY)
        def child():
            lock = trace.Lock()
            with lock: pass
        pid = os.fork()
        if pid == 0:
            child(); trace.stop(); os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
        tmp_path,
    )
    [child] = [told for told in read_all(tmp_path) if told.of(LOCK_ACQUIRED)]
    assert [event.name for event in child.of(LOCK_ACQUIRED, LOCK_RELEASED)] == ["child.lock"] * 2
