"""How a process may end, and what may interrupt it, while it records: the file stays readable, the program unharmed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.ctrace_events import END, LOCK_GIVEN_UP, LOCK_WAIT, read_all, record, run


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
        import gc; gc.collect()  # from 3.14 on so few may be left to the end
        sys.kept = Node()
        """,
    "stopped at exit by the interpreter": """
        import atexit
        atexit.register(lambda: trace.instant("late"))
        trace.start(DIRECTORY)
        trace.instant("i")
        """,
    "generators abandoned": """
        @trace.traced
        def steps():
            try:
                while True:
                    with trace.span("step"): yield
            finally:
                with trace.span("closed"): pass
        trace.start(DIRECTORY)
        left = [steps() for _ in range(100)]
        for one in left: next(one); next(one)
        del left[:50]
        sys.left = left
        """,
    "asynchronous generators closed late": """
        import asyncio, gc
        @trace.traced
        async def steps():
            try:
                while True:
                    with trace.span("step"): yield await asyncio.sleep(0)
            finally:
                with trace.span("closed"): await asyncio.sleep(0)
        left = []
        async def main():
            for number in range(50):
                one = steps(); await one.__anext__()
                if number % 2: left.append(one)
            gc.collect(); await asyncio.sleep(0)
        trace.start(DIRECTORY)
        asyncio.run(main())
        sys.left = left
        """,
    "coroutines never awaited": """
        import warnings; warnings.simplefilter("ignore")
        @trace.traced
        async def work():
            with trace.span("never"): pass
        trace.start(DIRECTORY)
        trace.instant("i")
        sys.left = [work() for _ in range(50)]
        [work() for _ in range(50)]
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
        seen, may_raise = [0], [False]
        @trace.traced(name="handler")
        def handler(number, frame):
            seen[0] += 1
            with lock, trace.span("in handler"): pass
            if seen[0] % 3 == 0 and may_raise[0]:
                may_raise[0] = False
                raise KeyError
        signal.signal(signal.SIGALRM, handler)
        trace.start(DIRECTORY)
        def others():
            for _ in range(2000):
                with lock: time.sleep(1e-5)
        other = threading.Thread(target=others, daemon=True)
        other.start()
        signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
        def work():  # a function: 3.13 jumps back in a loop outside of the `try` that is around it
            while seen[0] < 300:
                with trace.span("main"):
                    if lock.acquire(timeout=0.001):
                        try: pass
                        finally: lock.release()
        while seen[0] < 300:
            try:
                may_raise[0] = True
                work()
                may_raise[0] = False
            except KeyError: pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        while lock._is_owned(): lock.release()
        other.join()
        trace.stop()
        """,
        tmp_path,
    )
    assert sum(span[1] == "handler" for span in told.spans()) >= 300


def test_a_recursion_error_leaves_spans_balanced(tmp_path: Path) -> None:
    told = record(
        """
        lock = trace.RLock()
        @trace.traced(name="deep")
        def deep():
            with trace.span("s"), lock: deep()
        @trace.traced(name="plain")
        def plain(): plain()
        trace.start(DIRECTORY)
        for work in (deep, plain):
            for _ in range(5):
                try: work()
                except RecursionError: pass
                else: sys.exit("no end")
                assert not lock._is_owned()
        trace.stop()
        """,
        tmp_path,
    )
    spans = told.spans()
    assert told.lost == 0 and {span[1] for span in spans} == {"deep", "plain", "s"}
    assert all(span[4] for span in spans), "each ended by the exception"


WAITS = {
    "Lock": "lock = trace.Lock(); lock.acquire(); wait = lock.acquire",
    "RLock": "lock = trace.RLock(); hold(lock); wait = lock.acquire",
    "with": "lock = trace.Lock(); lock.acquire(); wait = lock.__enter__",
    "Semaphore": "wait = trace.Semaphore(0).acquire",
    "Condition": "condition = trace.Condition(); condition.acquire(); wait = condition.wait",
    "Queue": "wait = trace.Queue().get",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_in_a_wait(what: str, tmp_path: Path) -> None:
    told = record(
        f"""
        import os, signal, threading, time
        def hold(lock):
            thread = threading.Thread(target=lambda: (lock.acquire(), time.sleep(60)), daemon=True)
            thread.start()
            while not lock._is_owned() and lock.acquire(blocking=False): lock.release()
        {WAITS[what]}
        def strike():
            # Not before the main thread sleeps. Until it has started this one it blocks signals, which another thread
            # then takes: that interrupts no wait of the main one, as with a plain lock.
            state = b""
            while state != b"S":
                time.sleep(0.1)
                with open(f"/proc/self/task/{{os.getpid()}}/stat", "rb") as stat:
                    state = stat.read().rpartition(b")")[2].split()[0]
            os.kill(os.getpid(), signal.SIGINT)
        trace.start(DIRECTORY)
        for _ in range(3):
            thread = threading.Thread(target=strike); thread.start()
            try:
                with trace.span("waits"): wait()
            except KeyboardInterrupt: pass
            else: sys.exit("not interrupted")
            thread.join()
        trace.stop()
        """,
        tmp_path,
    )
    assert [span[4] for span in told.spans() if span[1] == "waits"] == [1, 1, 1]
    assert len(told.of(LOCK_WAIT)) >= 3 and len(told.of(LOCK_GIVEN_UP)) == 3


def test_a_subinterpreter_is_told_that_it_is_not_traced(tmp_path: Path) -> None:
    """The native module is the main interpreter's; an import elsewhere is an ImportError, and harms nobody."""
    told = record(
        """
        try: import _interpreters as interpreters  # 3.13
        except ImportError: import _xxsubinterpreters as interpreters
        code = (
            "try:\\n import contend.trace\\n"
            "except ImportError as error: assert 'subinterpreters' in str(error), error\\n"
            "else: raise SystemExit('imported')"
        )
        @trace.traced(name="f")
        def f():
            one = interpreters.create()
            try:
                failed = interpreters.run_string(one, code)
                assert failed is None, failed.formatted
            finally: interpreters.destroy(one)
        trace.start(DIRECTORY)
        for _ in range(5): f()
        trace.stop()
        """,
        tmp_path,
    )
    assert len(told.spans()) == 5
