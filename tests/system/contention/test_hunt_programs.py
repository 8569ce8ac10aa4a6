"""Ordinary programs, each with one thing that holds its jobs up, or none; traced for real, and what a hunt names."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from contend.contention.hunt import Hunt, batch_of, hunt
from contend.trace.launch import TraceOptions, run

pytestmark = pytest.mark.system


@dataclass(frozen=True)
class Program:
    """A program; which finding comes first (kind, resource), or None where there is to be none of these kinds."""

    name: str
    first: tuple[str, str] | None
    code: str


THREADS = """
import threading, time
from contend import trace
def all_of(function, *numbers):
    threads = [threading.Thread(target=function, args=(n,)) for n in numbers]
    [t.start() for t in threads]; [t.join() for t in threads]
"""

PROGRAMS = (
    Program("coroutines, blocked two functions deep", ("blocked-loop", "squeeze"), """
        import asyncio, time
        def render(): squeeze()
        def squeeze(): time.sleep(0.05)
        async def fetch(): await asyncio.sleep(0.01)
        async def handle(i):
            await fetch()
            if i % 3 == 0: render()
            await fetch()
        async def main():
            time.sleep(0.3)  # the program starts: no job stands still for it
            await asyncio.gather(*[asyncio.create_task(handle(i)) for i in range(15)])
        asyncio.run(main())
    """),
    Program("greenlets of gevent, blocked two functions deep", ("blocked-loop", "squeeze"), """
        from gevent import monkey; monkey.patch_all()
        import gevent, time
        real = monkey.get_original("time", "sleep")
        def render(): squeeze()
        def squeeze(): real(0.05)
        def handle(i):
            time.sleep(0.01)
            if i % 3 == 0: render()
            time.sleep(0.01)
        gevent.joinall([gevent.spawn(handle, i) for i in range(15)])
    """),
    Program("coroutines that start late, and then wait for nobody", None, """
        import asyncio, time
        from contend import trace
        async def handle(i):
            with trace.job("request"): await asyncio.sleep(0.02)
        async def main():
            time.sleep(0.4)
            for _ in range(3): await asyncio.gather(*[handle(i) for i in range(8)])
        asyncio.run(main())
    """),
    Program("a manager's lock", ("lock", "lock"), """
        import multiprocessing, time
        from contend import trace
        def work(lock):
            for _ in range(5):
                with trace.job("item"):
                    with lock: time.sleep(0.03)
        if __name__ == "__main__":
            with multiprocessing.Manager() as manager:
                lock = manager.Lock()
                processes = [multiprocessing.Process(target=work, args=(lock,)) for _ in range(4)]
                [p.start() for p in processes]; [p.join() for p in processes]
    """),
    Program("a lock that is tried for, and slept in between", ("polling", "disk"), THREADS + """
disk = threading.Lock()
def work(n):
    for _ in range(4):
        with trace.job("save"):
            while not disk.acquire(blocking=False): time.sleep(0.01)
            try: time.sleep(0.025)
            finally: disk.release()
all_of(work, *range(5))
    """),
    Program("coroutines that look again and again", ("polling", "sleep"), """
        import asyncio
        ready = set()
        async def produce():
            for i in range(10):
                await asyncio.sleep(0.04); ready.add(i)
        async def handle(i):
            while i not in ready: await asyncio.sleep(0.02)
        async def main(): await asyncio.gather(produce(), *[asyncio.create_task(handle(i)) for i in range(10)])
        asyncio.run(main())
    """),
    Program("connections that come back late", ("pool-starved", "connections"), THREADS + """
import queue
connections = queue.Queue()
for _ in range(2): connections.put(object())
def work(n):
    with trace.job("request"):
        connection = connections.get()
        with trace.span("render"): time.sleep(0.04)
        connections.put(connection)
all_of(work, *range(12))
    """),
    Program("a pool of threads that compute", ("gil", "GIL"), THREADS + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(4)
def crunch(): sum(i * i % 7 for i in range(400_000))
def work(n):
    with trace.job("request"): pool.submit(crunch).result(); pool.submit(crunch).result()
all_of(work, *range(12))
    """),
    Program("a pool of two that waits", ("pool-small", "pool"), THREADS + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
def work(n):
    with trace.job("request"): pool.submit(time.sleep, 0.05).result()
all_of(work, *range(12))
    """),
    Program("a machine whose next user is notified", ("condition", "turn"), THREADS + """
turn, busy = threading.Condition(), []
def work(n):
    for _ in range(3):
        with trace.job("order"):
            with turn:
                turn.wait_for(lambda: not busy)
                busy.append(n)
            with trace.span("cut"): time.sleep(0.02)
            with turn:
                busy.pop()
                turn.notify()
all_of(work, *range(5))
    """),
    Program("jobs that look whether their piece is done", ("polling", "pieces"), THREADS + """
import queue
pieces, done = queue.Queue(), set()
def make():
    while (n := pieces.get()) is not None:
        time.sleep(0.012); done.add(n)
def work(n):
    with trace.job("order"):
        pieces.put(n)
        while n not in done: time.sleep(0.02)
maker = threading.Thread(target=make); maker.start()
all_of(work, *range(9)); pieces.put(None); maker.join()
    """),
    Program("clients that back off for longer each time", ("polling", "seats"), THREADS + """
seats = threading.Semaphore(1)
def work(n):
    with trace.job("pay"):
        pause = 0.005
        while not seats.acquire(blocking=False): time.sleep(pause); pause *= 2
        try: time.sleep(0.02)
        finally: seats.release()
all_of(work, *range(8))
    """),
    Program("a coroutine that keeps its loop for 4 ms each time", ("blocked-loop", "read settings"), """
        import asyncio, time
        from contend import trace
        async def handle(i):
            with trace.job("request"):
                for _ in range(5):
                    with trace.span("read settings"): time.sleep(0.004)
                    done = asyncio.get_running_loop().create_future()
                    asyncio.get_running_loop().call_later(0.002, done.set_result, 1)
                    await done
        async def main(): await asyncio.gather(*[asyncio.create_task(handle(i)) for i in range(6)])
        asyncio.run(main())
    """),
    Program("jobs that hand on a piece and wait for it, and sleep then", None, THREADS + """
import queue
pieces = queue.Queue()
def make():
    while (n := pieces.get()) is not None:
        time.sleep(0.003); n.set()
def work(n):
    for _ in range(2 + n % 4):
        with trace.job("order"):
            piece = threading.Event(); pieces.put(piece); piece.wait()
            with trace.span("ask"): time.sleep(0.03)
maker = threading.Thread(target=make); maker.start()
all_of(work, 3); pieces.put(None); maker.join()
    """),
    Program("a start that is slow, and jobs that are not", None, THREADS + """
boot = threading.Lock()
def load(n):
    with boot: time.sleep(0.1)
all_of(load, *range(5))
for _ in range(10):
    with trace.job("request"), trace.span("ask"): time.sleep(0.02)
    """),
)  # fmt: skip


def hunted(program: Program, folder: Path) -> Hunt:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program.code))
    trace = folder / "trace"
    assert (
        run(TraceOptions(trace, cpu_times=True, run_delay=True), [sys.executable, "-W", "ignore", str(path)])
        == 0
    )
    return hunt(batch_of("program", [trace], None))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_what_holds_jobs_up_is_named(program: Program, tmp_path: Path) -> None:
    found = hunted(program, tmp_path)
    # What else runs on this host is no part of the program.
    named = [
        (finding.kind, finding.resource)
        for finding in found.findings
        if finding.kind not in ("cpu", "blocked")
    ]
    told = [finding.sentence for finding in found.findings]
    assert found.batch.whole.jobs, told
    assert named[:1] == ([program.first] if program.first else []), told
    if program.first is None:
        assert "sleeping" in found.whereabouts
    # The thread that looks at late loops is contend's own.
    assert not any(b"contend-watch" in file.read_bytes() for file in (tmp_path / "trace").glob("*.ctrace"))
    grow = [finding for finding in found.findings if "more workers than" in finding.advice]
    assert not grow or program.first == ("pool-small", "pool"), told
