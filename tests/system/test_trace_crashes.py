"""What may go wrong in a service, while it records: nothing of it harms the program, and the file stays readable."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.ctrace_events import BEGIN, END, INSTANT, LOCK_WAIT, read, read_all, record, run

pytestmark = pytest.mark.system


def test_a_thousand_threads(tmp_path: Path) -> None:
    told = record(
        """
        import threading
        lock = trace.Lock(name="L")
        barrier = threading.Barrier(1000)
        @trace.traced(name="f")
        def f(depth):
            if depth: f(depth - 1)
            else:
                with lock: pass
        def work():
            barrier.wait()
            for _ in range(20): f(3)
        trace.start(DIRECTORY)
        threads = [threading.Thread(target=work, name=f"t{n}") for n in range(1000)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(trace.stop())
        """,
        tmp_path,
    )
    assert told.lost == 0 and len(told.spans()) == 1000 * 20 * 4
    assert {f"t{number}" for number in range(1000)} <= {track.name for track in told.tracks.values()}


@pytest.mark.parametrize("overflow", ["drop", "block"])
def test_more_than_there_is_room_for(overflow: str, tmp_path: Path) -> None:
    told = record(
        f"""
        import threading
        @trace.traced(name="f")
        def f(depth):
            if depth: f(depth - 1)
        def work():
            for _ in range(2000): f(100)
        trace.start(DIRECTORY, buffer_bytes=64 << 10, overflow={overflow!r})
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        status = trace.stop()
        print(status.lost, status.events)
        """,
        tmp_path,
    )
    spans = told.spans()  # balanced, whatever was lost
    if overflow == "block":
        assert told.lost == 0 and len(spans) == 3 * 2000 * 101
    else:
        # Every call is on record whole, or counted once as a lost begin.
        assert told.lost > 0 and len(spans) + told.lost == 3 * 2000 * 101


def test_fork_in_the_midst_of_spans_and_locks(tmp_path: Path) -> None:
    run(
        """
        import os, threading, time
        lock = trace.Lock(name="L")
        stop = threading.Event()
        def noise():
            while not stop.is_set():
                with trace.span("noise"), lock: pass
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


def test_killed_it_leaves_all_but_its_last_moment(tmp_path: Path) -> None:
    code = """
import sys, time
from contend import trace
trace.start(sys.argv[1])
for number in range(10**9):
    with trace.span("s", number=number): time.sleep(0.001)
    if number == 5: print("on", flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
    )
    assert child.stdout and child.stdout.readline()
    time.sleep(1.5)
    killed = time.monotonic_ns()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    [told] = read_all(tmp_path)
    assert not told.ended and len(told.of(END)) > 100
    assert killed - told.syncs[-1][1] < 1e9


EXITS = {
    "daemon threads in locks": """
        import threading, time
        lock, again = trace.Lock(), trace.RLock()
        def work():
            while True:
                with trace.span("s"), lock, again: time.sleep(1e-5)
        trace.start(DIRECTORY)
        for _ in range(8): threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        """,
    "daemon threads that never get their lock": """
        import threading, time
        lock = trace.Lock(); lock.acquire()
        trace.start(DIRECTORY)
        for _ in range(4): threading.Thread(target=lock.acquire, daemon=True).start()
        time.sleep(0.05)
        class Late:
            def __del__(self): lock.release()
        sys.late = Late()
        """,
    "daemon threads in traced functions": """
        import threading, time
        @trace.traced
        def f(n): return f(n - 1) if n else time.sleep(1e-6)
        def work():
            while True: f(10)
        trace.start(DIRECTORY)
        for _ in range(8): threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        """,
    "finalisers that raise in a traced function": """
        class Node:
            @trace.traced
            def __del__(self):
                with trace.span("del"): raise ValueError("meant")
        sys.unraisablehook = lambda told: None
        trace.start(DIRECTORY)
        for _ in range(2000):
            a, b = Node(), Node(); a.b, b.a = b, a
        sys.kept = Node()
        """,
    "stopped at exit by the interpreter": """
        import atexit
        atexit.register(lambda: trace.instant("late"))
        trace.start(DIRECTORY)
        trace.instant("i")
        """,
    "sys.exit in a span": """
        trace.start(DIRECTORY)
        with trace.span("s"): sys.exit(0)
        """,
}


@pytest.mark.parametrize("how", EXITS)
def test_interpreter_shutdown(how: str, tmp_path: Path) -> None:
    for _ in range(3):
        run(EXITS[how], tmp_path)
    traces = read_all(tmp_path)
    assert len(traces) == 3 and all(told.ended and not told.torn and told.events for told in traces)


def test_signals_at_random(tmp_path: Path) -> None:
    told = record(
        """
        import os, random, signal, threading, time
        lock = trace.RLock(name="L")
        seen = [0]
        @trace.traced(name="handler")
        def handler(number, frame):
            seen[0] += 1
            with lock, trace.span("in handler"): pass
            if seen[0] % 3 == 0: raise KeyError
        signal.signal(signal.SIGALRM, handler)
        trace.start(DIRECTORY)
        other = threading.Thread(target=lambda: [lock.acquire() and (time.sleep(1e-5), lock.release()) for _ in range(2000)])
        other.start()
        signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
        while True:
            try:
                while seen[0] < 300:
                    with trace.span("main"):
                        if lock.acquire(timeout=0.001):
                            try: pass
                            finally: lock.release()
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except KeyError: pass
        while lock._is_owned(): lock.release()
        other.join()
        trace.stop()
        """,
        tmp_path,
    )
    assert sum(span[1] == "handler" for span in told.spans()) >= 300


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk]).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    return disk


FILLS = """
import time
trace.start(DIRECTORY)
@trace.traced(name="f")
def f(): pass
for _ in range(400_000): f()
time.sleep(0.6)
f()
status = trace.stop()
assert status.failure and not status.recording, status
print("went on")
"""


def test_a_full_disk_ends_the_recording_only(small_disk: Path) -> None:
    try:
        done = run(FILLS, small_disk)
        [told] = read_all(small_disk)
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)
    assert done.stdout == "went on\n" and not told.torn and told.of(BEGIN)
    [warning] = done.stderr.splitlines()
    assert warning.startswith("contend.trace: recording stopped, the program goes on: ")
    assert "No space left on device" in warning and str(small_disk) in warning


def test_a_limit_on_file_sizes_ends_the_recording_only(tmp_path: Path) -> None:
    resource_limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({1 << 20}, {1 << 20}))\n"
    assert resource.RLIMIT_FSIZE
    done = run(resource_limit + FILLS, tmp_path)
    [told] = read_all(tmp_path)
    assert done.stdout == "went on\n" and not told.torn and "File too large" in done.stderr


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("trace.start(DIRECTORY + '/file/t')", tmp_path, check=False)
    assert done.returncode == 1 and "HostFailed: write a trace into" in done.stderr


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Ten million events, arguments that never repeat, tracks and locks that come and go."""
    done = run(
        """
        import resource, threading
        @trace.traced(name="f")
        def f(): pass
        def some(count, texts):
            for _ in range(count): f()
            for number in range(texts): trace.instant("i", id=f"request-{number}-{count}")
            for _ in range(texts // 100):
                thread = threading.Thread(target=trace.Lock().acquire); thread.start(); thread.join()
        trace.start(DIRECTORY, overflow="block", buffer_bytes=8 << 20)
        some(10_000, 10_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        some(5_000_000, 100_000)
        status = trace.stop()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, status.events, status.bytes, status.lost)
        """,
        tmp_path,
    )
    grown_kb, events, size, lost = map(int, done.stdout.split())
    assert lost == 0 and events > 10_000_000 and grown_kb < 40_000
    assert size / events < 20


def test_threads_wait_for_each_other_under_fire(tmp_path: Path) -> None:
    """Contended locks while recording is switched on and off at random in threads of their own."""
    run(
        """
        import random, threading, time
        locks = [trace.Lock(), trace.RLock()]
        end = time.monotonic() + 3
        def work(seed):
            draw = random.Random(seed)
            while time.monotonic() < end:
                with trace.span("s", n=seed), draw.choice(locks):
                    if draw.random() < 0.1: time.sleep(1e-5)
        def switch(seed):
            draw = random.Random(seed)
            while time.monotonic() < end:
                try: trace.start(DIRECTORY, buffer_bytes=128 << 10)
                except Exception as error: assert "already" in str(error), error
                time.sleep(draw.random() * 0.01)
                trace.flush() if draw.random() < 0.5 else trace.stop()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        threads += [threading.Thread(target=switch, args=(n,)) for n in range(2)]
        for t in threads: t.start()
        for t in threads: t.join()
        """,
        tmp_path,
    )
    traces = [read(path) for path in tmp_path.glob("*.ctrace")]
    assert len(traces) > 10 and all(told.ended and not told.torn for told in traces)
    assert any(told.of(LOCK_WAIT) for told in traces)
