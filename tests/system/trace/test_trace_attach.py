"""`contend trace --pid`: programs that run already, and are as before afterwards."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import contend
from support.attaching import CONTEND, ENVIRONMENT, LOOPS, attach, names, refused, target, traced
from support.command_line import wait_for
from support.ctrace_events import BEGIN, LOCK_ACQUIRED, read_all
from support.prerequisites import need

pytestmark = [
    pytest.mark.needs(os.uname().machine == "x86_64", "attaching is made for x86-64"),
]


@pytest.mark.parametrize("loop", LOOPS)
def test_whatever_it_does(loop: str, tmp_path: Path) -> None:
    with target(tmp_path, LOOPS[loop]) as child:
        # Twice: what was put back can be patched again.
        for _ in range(2):
            told = traced(tmp_path, child.pid, "--include", "helper:*")
            assert {"helper:Store.get", "helper:Store.half", "helper:top"} <= names(told)
            if loop == "asyncio":
                assert "helper:later" in names(told)
                assert any(track.kind == 3 for track in told.tracks.values())
        assert child.poll() is None


def test_it_is_as_before(tmp_path: Path) -> None:
    """Every name of every module and class that was there, by identity."""
    code = """
        import asyncio, concurrent.futures, json, os, queue, subprocess, sys, threading, time
        import typing  # itself sets an attribute of a class of others (3.14)
        from threading import Lock
        import helper
        from helper import top as renamed
        def everything():
            found = {}
            for name, module in list(sys.modules.items()):
                if name.partition(".")[0] == "contend" or not hasattr(module, "__dict__"): continue
                for key, value in list(vars(module).items()):
                    if name == "__main__" and key in ("before", "after", "seen", "lock", "line"): continue
                    found[name, key] = value
                    if isinstance(value, type) and value.__module__ == name:
                        for inner, member in vars(value).items(): found[name, key, inner] = member
            return found, list(sys.meta_path)
        before = everything()
        seen = set()
        print("ready", flush=True)
        while not os.path.exists("stop"):
            renamed(); lock = Lock()
            with lock: pass
            seen |= {type(renamed).__name__, type(lock).__module__}
            time.sleep(0.005)
        after = everything()
        assert before[1] == after[1], after[1]
        changed = [key for key, value in before[0].items() if after[0].get(key) is not value]
        modules = {name for name, *_ in before[0]}
        added = [key for key in after[0].keys() - before[0].keys() if key[0] in modules
            and not isinstance(after[0][key], type(sys))]
        print(json.dumps([changed, [key for key in added if not key[1].startswith("_")], sorted(seen)]))
    """
    with target(tmp_path, code) as child:
        process = Path(f"/proc/{child.pid}")
        files = sorted((process / "fd").iterdir())
        threads = sorted((process / "task").iterdir())
        told = traced(tmp_path, child.pid, "--include", "helper:*")
        assert told.of(LOCK_ACQUIRED)
        wait_for(lambda: sorted((process / "task").iterdir()) == threads, "end of our threads")
        assert sorted((process / "fd").iterdir()) == files
        (tmp_path / "stop").touch()
        out, err = child.communicate(timeout=30)
        assert child.returncode == 0, err
        changed, added, seen = json.loads(out.splitlines()[0])
        assert (changed, added) == ([], [])
        assert {"Traced", "function", "contend._native", "_thread"} <= set(seen)


def test_libraries_of_services(tmp_path: Path) -> None:
    """Their statements are told once each, also the second time; what must not be replaced in use is not."""
    code = """
        import os, queue, sys, time
        import sqlalchemy
        from oslo_concurrency import lockutils
        engine = sqlalchemy.create_engine("sqlite://")
        connection = engine.connect()
        before, kept = lockutils._semaphores._semaphores, queue.Queue()
        print("ready", flush=True)
        while not os.path.exists("stop"):
            with lockutils.lock("name"): connection.execute(sqlalchemy.text("select 1"))
            assert isinstance(kept, queue.Queue) and lockutils._semaphores._semaphores is before
            time.sleep(0.01)
        print([name for name in vars(engine.dialect) if "do_" in name or "contend" in name])
    """
    with target(tmp_path, code) as child:
        for _ in range(2):
            told = traced(tmp_path, child.pid)
            begun = [event.ticks for event in told.of(BEGIN) if event.name == "select ?"]
            assert len(begun) > 1
            # It sleeps for 10 ms between two statements: one that is told twice would follow itself at once.
            assert min(told.seconds(b - a) for a, b in itertools.pairwise(begun)) > 0.009
        (tmp_path / "stop").touch()
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out) == (0, "[]\n"), err


WORK = """
    import hashlib, os, signal, sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    import helper
    # Work whose result tells if a single step of it was disturbed: bytes, floats in registers, signals that are counted.
    alarms = 0
    def on_alarm(*_):
        global alarms
        alarms += 1
    signal.signal(signal.SIGALRM, on_alarm)
    def chain(seed):
        state, number = bytes([seed]), 1.0 + seed
        for step in range(ROUNDS):
            state = helper.digest(state); number = (number * 1.0000001 + step % 7) % 1e6
        return state.hex(), number
    print("ready", flush=True)
    sys.stdin.readline()
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(chain, seed) for seed in (1, 2)]
        results = [chain(0)] + [other.result() for other in others]
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(hashlib.sha256(repr(results).encode()).hexdigest(), alarms > 0)
"""


def test_what_it_computes_stays_the_same(tmp_path: Path) -> None:
    code = WORK.replace("ROUNDS", "700_000")
    answers = []
    for attaches in (0, 5):
        with target(tmp_path, code) as child:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
            for _ in range(attaches):
                done = attach(tmp_path, child.pid, "--for", "0.05s", "--include", "helper:*")
                assert done.returncode == 0 or "ended" in done.stderr, done.stderr
                shutil.rmtree(tmp_path / "t", ignore_errors=True)
            answers.append(child.communicate(timeout=60))
            assert child.returncode == 0, answers[-1][1]
    assert answers[0] == answers[1] and answers[0][0].endswith("True\n")


def test_a_signal_that_comes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """Its main thread waits in a call that only a signal ends; each comes while we attach."""
    code = """
        import os, signal, sys, threading
        counts = []
        def count(*_):
            counts.append(1)
            print(len(counts), flush=True)
        signal.signal(signal.SIGUSR1, count)
        print("ready", flush=True)
        while len(counts) < 5: signal.pause()
    """
    with target(tmp_path, code) as child:
        assert child.stdout is not None
        for number in range(1, 6):
            contend = subprocess.Popen(
                [*CONTEND, "--pid", str(child.pid), "-o", f"t{number}", "--for", "0.1s"],
                cwd=tmp_path,
                env=ENVIRONMENT,
                stderr=subprocess.PIPE,
            )
            time.sleep(0.1 * number)
            os.kill(child.pid, signal.SIGUSR1)
            assert select.select([child.stdout], [], [], 30)[0], "the signal was lost"
            assert child.stdout.readline() == f"{number}\n"
            _, err = contend.communicate(timeout=60)
            assert contend.returncode in (0, 2), err  # 2: the program has ended
        assert child.wait(30) == 0


def test_children_record_and_let_go_too(tmp_path: Path) -> None:
    code = """
        import os, sys, time
        import helper
        def child():
            while not os.path.exists("stop"): helper.top(); time.sleep(0.005)
            os._exit(type(helper.top).__name__ != "function")
        print("ready", flush=True)
        while not os.path.exists("fork"): time.sleep(0.005)
        pid = os.fork()
        if pid == 0: child()
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    with target(tmp_path, code) as child:
        contend = subprocess.Popen(
            [*CONTEND, "--pid", str(child.pid), "-o", "t", "--no-io", "--include", "helper:*"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert contend.stderr is not None
        assert f"process {child.pid}: Python 3." in contend.stderr.readline()
        (tmp_path / "fork").touch()
        wait_for(lambda: len(list((tmp_path / "t").glob("*.ctrace"))) == 2, "file of the child")
        contend.send_signal(signal.SIGINT)
        assert contend.wait(30) == 0, contend.stderr.read()
        contend.stderr.close()
        wait_for(lambda: all(told.ended for told in read_all(tmp_path / "t")), "end of both recordings")
        (tmp_path / "stop").touch()
        out, err = child.communicate(timeout=30)
        assert out == "0\n", err
        assert [names(told) for told in read_all(tmp_path / "t") if told.pid != child.pid] == [
            {"helper:Store.get", "helper:Store.half", "helper:top"}
        ]


def test_our_sudden_end_is_the_end_of_the_recording(tmp_path: Path) -> None:
    with target(tmp_path, LOOPS["idle"]) as child:
        contend = subprocess.Popen(
            [*CONTEND, "--pid", str(child.pid), "-o", "t"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert contend.stderr is not None
        assert f"process {child.pid}: Python 3." in contend.stderr.readline()
        refused_twice = attach(tmp_path, child.pid, "-o", "other")
        assert refused_twice.returncode == 2 and "another contend is attached" in refused_twice.stderr
        contend.kill()
        contend.communicate()
        last = tmp_path / "t/.attach/status.json"
        wait_for(lambda: json.loads(last.read_text())["state"] == "ended", "end of the recording")
        assert all(told.ended for told in read_all(tmp_path / "t"))
        shutil.rmtree(tmp_path / "t")
        traced(tmp_path, child.pid)


def test_a_program_that_ends_meanwhile(tmp_path: Path) -> None:
    code = """
        import sys, time
        import helper
        print("ready", flush=True)
        while type(helper.top).__name__ == "function": time.sleep(0.01)
        for _ in range(20): helper.top(); time.sleep(0.01)
        sys.exit(3)
    """
    with target(tmp_path, code) as child:
        done = attach(tmp_path, child.pid, "--include", "helper:*")
        assert done.returncode == 0 and f"process {child.pid} has ended" in done.stderr, done.stderr
        assert child.wait(10) == 3
        (told,) = read_all(tmp_path / "t")
        assert told.ended and "helper:top" in names(told)


def test_without_a_line_of_python_it_is_told(tmp_path: Path) -> None:
    """Its only thread waits, and `threading` is not imported yet: that its main thread has to do."""
    code = """
        import os, sys
        print("ready", flush=True)
        os.read(0, 1)
        print(sorted(name for name in sys.modules if name.startswith("contend")))
    """
    with target(tmp_path, code) as child:
        refused(tmp_path, child.pid, "ran no Python for 10 s", "system call read", code=1)
        out, err = child.communicate("\n", timeout=30)
        assert (child.returncode, out) == (0, "[]\n"), err


def test_a_recording_that_goes_on_already(tmp_path: Path) -> None:
    code = """
        import sys, time
        sys.path[:0] = PATH
        from contend import trace
        trace.start("own")
        print("ready", flush=True)
        while True: time.sleep(0.01)
    """
    with target(tmp_path, code.replace("PATH", repr(sys.path))) as child:
        refused(tmp_path, child.pid, "records already", "own")


def test_what_is_no_python(tmp_path: Path) -> None:
    sleeping = subprocess.Popen(["sleep", "100"])
    stat = Path(f"/proc/{sleeping.pid}/stat")
    try:
        refused(tmp_path, sleeping.pid, "is not Python", "sleep")
        os.kill(sleeping.pid, signal.SIGSTOP)
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stop")
        refused(tmp_path, sleeping.pid, "stopped by a signal", "kill -CONT")
    finally:
        sleeping.kill()
    os.waitid(os.P_PID, sleeping.pid, os.WEXITED | os.WNOWAIT)
    refused(tmp_path, sleeping.pid, "has ended")
    sleeping.wait()
    refused(tmp_path, sleeping.pid, f"there is no process {sleeping.pid}")


def test_what_is_traced_by_another(tmp_path: Path) -> None:
    seize = """
        import ctypes, os, sys
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        PTRACE_SEIZE = 0x4206
        assert libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) == 0, os.strerror(ctypes.get_errno())
        print("seized", flush=True)
        sys.stdin.read()
    """
    with target(tmp_path, LOOPS["idle"]) as child:
        words = (sys.executable, "-c", textwrap.dedent(seize), str(child.pid))
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
            assert tracer.stdout is not None
            assert tracer.stdout.readline() == "seized\n"
            refused(tmp_path, child.pid, "is traced already", f"process {tracer.pid}")
        traced(tmp_path, child.pid)


def test_in_another_file_system(tmp_path: Path) -> None:
    need(os.geteuid() == 0 and shutil.which("unshare"), "a mount namespace needs root and unshare")
    program = "import threading, time; print('ready', flush=True); time.sleep(60)"
    package = str(Path(contend.__file__).resolve().parent)
    hidden = 'mount -t tmpfs none "$0" && exec "$@"'
    words = ("unshare", "-m", "sh", "-c", hidden, package, sys.executable, "-S", "-c", program)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            refused(tmp_path, child.pid, "sees another file system", package)
        finally:
            child.kill()


def test_as_a_user_without_rights(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "becoming another user needs root")
    with target(tmp_path, LOOPS["idle"]) as child:
        done = subprocess.run(
            [sys.executable, "-c", ORDER, json.dumps({"pid": child.pid})],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=30,
        )
        told = json.loads(done.stdout)
        assert told["bad_input"] and "may not be attached to" in told["error"] and "sudo" in told["hint"]


# contend-probe as nobody; this Python may be where only root may read, so it is opened before.
ORDER = """
import os, sys
from contend.probes.client import installed
program = os.open(installed(), os.O_RDONLY)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.set_inheritable(program, True)
os.execve(program, ["contend-probe", "inject", sys.argv[1]], {})
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pid", "1", "--", "true"], "one of them"),
        (["--for", "1s", "--", "true"], "--for is for --pid"),
        ([], "nothing to trace"),
        (["--pid", str(2**22 + 1)], "there is no process"),
    ],
)
def test_mistakes_are_told(words: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*CONTEND, *words], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())
