"""`contend trace -- COMMAND`: programs that know nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from contend.trace.include import Include
from support.ctrace_events import (
    FLOW_IN,
    FLOW_OUT,
    LOCK_WAIT,
    QUEUE_PUT,
    Trace,
    read_all,
)

CONTEND = [sys.executable, "-c", "from contend.cli import main; main()", "trace"]
PATH = os.pathsep.join(filter(None, sys.path))


def launch(
    directory: Path, code: str, *options: str, files: dict[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], list[Trace]]:
    """A program of those files, run traced in `directory`; its outcome, and its traces. System calls are left out: which
    of them take long enough to be told is the machine's affair.
    """
    for name, text in {**(files or {}), "program.py": code}.items():
        place = directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(textwrap.dedent(text))
    done = subprocess.run(
        [*CONTEND, "-o", "t", "--no-io", *options, "--", sys.executable, "program.py"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done, read_all(directory / "t")


def names(told: Trace) -> list[str]:
    return sorted({span[1] for span in told.spans()})


HELPER = """
    import enum, functools
    class Color(enum.Enum):
        RED = 1
        def nice(self): return self.name
    class Store:
        def __init__(self): self.value = 1
        def get(self, n): return n + self.half(2) - self.one()
        @staticmethod
        def half(a): return a // 2
        @classmethod
        def one(cls): return 1
        @property
        def size(self): return self.value
        class Inner:
            def go(self): return Color.RED.nice()
        def __repr__(self): return "store"
    @functools.lru_cache
    def cached(): return 1
    def top(): return Store.Inner().go()
    async def later(): return 1
    def secret(): return top
"""


def test_functions_by_pattern(tmp_path: Path) -> None:
    done, traces = launch(
        tmp_path,
        """
        import asyncio, sys
        from helpers import part
        store = part.Store()
        assert (store.get(1), store.size, part.top(), part.cached(), repr(store)) == (1, 1, "RED", 1, "store")
        assert asyncio.run(part.later()) == 1 and part.secret()
        from json import dumps
        sys.exit(3)
        """,
        "--no-gc",
        "--include",
        "helpers.*",
        "--exclude",
        "*:secret",
        files={"helpers/part.py": HELPER, "helpers/__init__.py": ""},
    )
    assert done.returncode == 3, done.stderr
    expected = [
        "Color.nice",
        "Store.Inner.go",
        "Store.__init__",
        "Store.get",
        "Store.half",
        "Store.one",
        "Store.size",
    ]
    assert names(traces[0]) == [f"helpers.part:{name}" for name in [*expected, "later", "top"]]
    assert traces[0].ended


def test_the_standard_librarys_locks_pools_queues_and_programs(tmp_path: Path) -> None:
    done, traces = launch(
        tmp_path,
        """
        import queue, subprocess, sys, threading, time
        from concurrent.futures import ThreadPoolExecutor
        class Service:
            def __init__(self):
                self.lock, self.ready = threading.Lock(), threading.Event()
                self.gate = threading.Semaphore(2)
                self.tasks = queue.Queue()
                self.pool_lock = threading.RLock()
            def work(self, number):
                with self.gate, self.pool_lock:
                    time.sleep(0.001)
                return number
        service = Service()
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(service.work, range(20))) == list(range(20))
        thread = threading.Thread(target=lambda: (service.tasks.get(), service.ready.set()))
        thread.start(); service.tasks.put(1)
        assert service.ready.wait(10); thread.join()
        subprocess.run([sys.executable, "-c", "import threading; threading.Lock().acquire()"], check=True)
        print(subprocess.check_output(["echo", "--password=secret"], text=True), end="")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "--password=secret\n"), done.stderr
    told, child = sorted(traces, key=lambda told: told.parent in {other.pid for other in traces})
    assert child.parent == told.pid and len(traces) == 2
    waits = {wait.name for wait in told.of(LOCK_WAIT)}
    assert {"Service.pool_lock", "Service.gate"} <= waits
    assert {put.name for put in told.of(QUEUE_PUT)} == {"Service.tasks", "pool"}
    spans = names(told)
    assert {"Service.work", "subprocess:Popen", "subprocess:Popen.communicate"} <= set(spans)
    sent = {event.args[""] for event in told.of(FLOW_OUT) if event.name == "submit"}
    received = {event.args[""] for event in told.of(FLOW_IN) if event.name == "submit"}
    assert len(sent) == 20 and sent == received
    assert all("password" not in str(event.args) for event in told.events)


def test_the_programs_own_sitecustomize_and_path_stay(tmp_path: Path) -> None:
    code = """
        import os, sys, sitecustomize
        assert sitecustomize.MINE and not any("inject" in entry for entry in sys.path), sys.path
        assert sys.path[0] == os.path.dirname(os.path.abspath(__file__)), sys.path
    """
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("MINE = True\n")
    (tmp_path / "program.py").write_text(textwrap.dedent(code))
    done = subprocess.run(
        [*CONTEND, "-o", "t", "--", sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(own), PATH])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert len(read_all(tmp_path / "t")) == 1


def test_a_worker_that_leaves_by_os_exit_is_whole(tmp_path: Path) -> None:
    done, traces = launch(
        tmp_path,
        """
        import os, helper
        if os.fork() == 0:
            helper.top()
            os._exit(0)
        os.wait()
        """,
        "--no-gc",
        "--include",
        "helper:top",
        files={"helper.py": HELPER},
    )
    assert done.returncode == 0, done.stderr
    assert [names(told) for told in traces if told.of(1)] == [["helper:top"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_go_to_the_command(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    child = subprocess.Popen(
        [*CONTEND, "-o", str(tmp_path / "t"), "--", sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    if number == signal.SIGKILL:
        os.kill(pid, number)
    else:
        time.sleep(0.1)
        child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode == 128 + number


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--", "no-such-program"], 2, "there is no program 'no-such-program'"),
        (["--include", ":f", "--", "true"], 2, "':f' names no module"),
        (["-o", ".", "--", "true"], 2, ". is there already"),
        (["-o", "t", "--", "true"], 0, "nothing was recorded"),
    ],
)
def test_mistakes_are_told(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    done = subprocess.run(
        [*CONTEND, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code and words in done.stderr


def test_patterns() -> None:
    include = Include(["a.*:C.*", "b"], ["*:C.secret"])
    asked = [("a.x", "C.f"), ("a.x", "f"), ("a", "C.f"), ("b", "anything"), ("a.x", "C.secret")]
    assert [include.wants(*one) for one in asked] == [True, False, False, True, False]
