"""Programs that run and are attached to by `contend trace --pid`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.ctrace_events import BEGIN, Trace, read_all

CONTEND = [sys.executable, "-c", "from contend.cli import main; main()", "trace"]
PATH = os.pathsep.join(filter(None, sys.path))
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATH}

# What every target has: functions to be traced, and a way to say that it is in its loop.
HELPER = """
    import hashlib
    class Store:
        def get(self, n): return self.half(n) + 1
        @staticmethod
        def half(n): return n // 2
    def digest(text): return hashlib.sha256(text).digest()
    def top(): return Store().get(4)
    async def later(): return top()
"""


@contextmanager
def target(directory: Path, code: str, python: str = sys.executable) -> Iterator[subprocess.Popen[str]]:
    """A program beside `helper.py` that has printed "ready"."""
    (directory / "helper.py").write_text(textwrap.dedent(HELPER))
    (directory / "program.py").write_text(textwrap.dedent(code))
    child = subprocess.Popen(
        [python, "-X", "faulthandler", "program.py"],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", child.communicate()
        yield child
    finally:
        child.kill()
        child.communicate()


def attach(directory: Path, pid: int, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CONTEND, "--pid", str(pid), "-o", "t", *options],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def traced(directory: Path, pid: int, *options: str) -> Trace:
    """Attach for a moment; the one trace that is left, and nothing else."""
    done = attach(directory, pid, "--for", "0.4s", *options)
    assert done.returncode == 0, done.stderr
    (told,) = read_all(directory / "t")
    assert told.pid == pid and told.ended and not told.torn
    assert [path.suffix for path in (directory / "t").iterdir()] == [".ctrace"]
    shutil.rmtree(directory / "t")
    return told


def names(told: Trace) -> set[str]:
    """Of spans; those in which it was let go have no end. Garbage is collected whenever it likes."""
    return {event.name for event in told.of(BEGIN)} - {"gc"}


def refused(directory: Path, pid: int, *words: str, code: int = 2) -> None:
    done = attach(directory, pid, "--for", "1s")
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ") and lines[1].startswith("  hint: "), done.stderr
    for word in words:
        assert word in done.stderr
    assert not (directory / "t").exists(), "a mistake leaves nothing"


# What runs, and how its main thread stands when we come.
LOOPS = {
    "idle": """
        import threading, time
        from helper import digest, top
        print("ready", flush=True)
        while True: top(); time.sleep(0.01)
    """,
    "busy": """
        from helper import digest, top
        print("ready", flush=True)
        while True:
            top()
            for _ in range(50_000): pass
    """,
    "blocked": """
        import sys, threading, time
        import helper
        def work():
            while True: helper.top(); time.sleep(0.01)
        threading.Thread(target=work, daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()
    """,
    "joining": """
        import threading, time
        import helper
        def work():
            while True: helper.top(); time.sleep(0.01)
        thread = threading.Thread(target=work); thread.start()
        print("ready", flush=True)
        thread.join()
    """,
    "pool": """
        import time
        from concurrent.futures import ThreadPoolExecutor
        import helper
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: helper.top(), range(4)))
            print("ready", flush=True)
            while True: list(pool.map(lambda _: helper.top(), range(4))); time.sleep(0.001)
    """,
    "asyncio": """
        import asyncio
        import helper
        async def serve():
            async def answer(reader, writer):
                while line := await reader.readline():
                    await asyncio.create_task(helper.later()); writer.write(line); await writer.drain()
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            print("ready", flush=True)
            while True:
                writer.write(b"x\\n"); await writer.drain(); await reader.readline(); await asyncio.sleep(0.001)
        asyncio.run(serve())
    """,
    "eventlet": """
        import eventlet; eventlet.monkey_patch()
        import threading, time, helper
        lock = threading.Lock()
        def work():
            while True:
                with lock: helper.top(); time.sleep(0.001)
        for _ in range(3): eventlet.spawn(work)
        print("ready", flush=True)
        while True: time.sleep(0.001)
    """,
}
LOOPS["gevent"] = LOOPS["eventlet"].replace(
    "eventlet.monkey_patch()", "from gevent import monkey; monkey.patch_all()"
)
LOOPS["gevent"] = LOOPS["gevent"].replace("eventlet", "gevent")
