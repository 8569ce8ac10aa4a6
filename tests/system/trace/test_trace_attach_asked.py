"""`contend trace --pid` of CPython 3.14 and newer: the interpreter itself is asked (PEP 768). Here under each that is on
this machine (`support.interpreters`); contend may run under another.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from contend.probes.client import installed
from support.attaching import LOOPS, attach, names, refused, target, traced
from support.ctrace_events import read_all
from support.interpreters import asked_by_themselves
from support.prerequisites import Cannot, need

pytestmark = [
    pytest.mark.needs(os.uname().machine == "x86_64", "attaching is made for x86-64"),
    pytest.mark.cannot(not asked_by_themselves(), Cannot.PYTHON_3_14),
]

each = pytest.mark.parametrize("version", asked_by_themselves())
FUNCTIONS = {"helper:Store.get", "helper:Store.half", "helper:top"}
# Its own libraries only: those of the interpreter that runs the tests are for that one.
ALONE = [loop for loop in LOOPS if loop not in ("eventlet", "gevent")]


@each
@pytest.mark.parametrize("loop", ALONE)
def test_whatever_it_does(version: str, loop: str, tmp_path: Path) -> None:
    with target(tmp_path, LOOPS[loop], asked_by_themselves()[version]) as child:
        for _ in range(2):
            told = traced(tmp_path, child.pid, "--include", "helper:*")
            assert names(told) >= FUNCTIONS
            if loop == "asyncio":
                assert "helper:later" in names(told)
        assert child.poll() is None


@each
def test_it_does_not_stand_still(version: str, tmp_path: Path) -> None:
    with target(tmp_path, LOOPS["busy"], asked_by_themselves()[version]) as child:
        done = attach(tmp_path, child.pid, "--for", "0.2s")
        assert done.returncode == 0 and "stood still" not in done.stderr, done.stderr
        (told,) = read_all(tmp_path / "t")
        lacks = [event.args for event in told.events if event.name == "GIL waits are not recorded"]
        assert [str(args["why"]).startswith("this Python runs without") for args in lacks] == (
            [True] if version.endswith("t") else []
        )


@each
@pytest.mark.parametrize("how", ["option", "environment"])
def test_who_forbids_it_is_not_asked(
    version: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor by any other way."""
    python = tmp_path / "python"
    option = "-X disable-remote-debug" if how == "option" else ""
    python.write_text(f'#!/bin/sh\nexec {asked_by_themselves()[version]} {option} "$@"\n')
    python.chmod(0o755)
    if how == "environment":
        monkeypatch.setenv("PYTHON_DISABLE_REMOTE_DEBUG", "1")
    for loop in ("idle", "blocked"):
        with target(tmp_path, LOOPS[loop], str(python)) as child:
            refused(
                tmp_path,
                child.pid,
                "remote debugging off",
                "PYTHON_DISABLE_REMOTE_DEBUG",
                "-X disable-remote-debug",
            )


@each
def test_without_a_line_of_python_it_is_withdrawn(version: str, tmp_path: Path) -> None:
    """Its main thread is in one call in C, which never asks for signals."""
    code = """
        print("ready", flush=True)
        sum(range(10**12))
    """
    with target(tmp_path, code, asked_by_themselves()[version]) as child:
        refused(tmp_path, child.pid, "ran no Python for 10 s", "is in native code", code=1)
        assert child.poll() is None
        # Nothing is left there to be withdrawn.
        assert order(child.pid, tmp_path / "t/.attach/script.py", withdraw=True)["way"] == "remote"


@each
def test_what_was_withdrawn_is_never_run(version: str, tmp_path: Path) -> None:
    """And what is not withdrawn is, once, as soon as the main thread comes to a bytecode."""
    code = """
        import os, sys
        print("ready", flush=True)
        for _ in range(2):
            os.read(0, 1)
            for _ in range(1000): pass
            print(os.path.exists("ran"), flush=True)
    """
    script = tmp_path / "script.py"
    script.write_text("open('ran', 'w').close()")
    with target(tmp_path, code, asked_by_themselves()[version]) as child:
        assert child.stdin is not None and child.stdout is not None
        assert order(child.pid, script)["way"] == "remote"
        assert "asked to run another script" in order(child.pid, script)["error"]
        assert order(child.pid, tmp_path / "other", withdraw=True)["way"] == "remote"
        assert order(child.pid, script, withdraw=True)["way"] is None
        child.stdin.write("x")
        child.stdin.flush()
        assert child.stdout.readline() == "False\n"
        assert order(child.pid, script)["way"] == "remote"
        child.stdin.write("x")
        child.stdin.flush()
        assert child.stdout.readline() == "True\n"
        assert order(child.pid, tmp_path / ("x" * 600))["bad_input"]
        child.wait(30)


def order(pid: int, script: Path, withdraw: bool = False) -> dict[str, object]:
    """What contend-probe tells of it."""
    words = {"pid": pid, "file": str(script), "withdraw": withdraw}
    done = subprocess.run([installed(), "inject", json.dumps(words)], capture_output=True, check=True)
    told: dict[str, object] = json.loads(done.stdout)
    return told


@each
def test_a_signal_that_comes_meanwhile_is_not_lost(version: str, tmp_path: Path) -> None:
    """Each sets a bit of the byte that is written to ask."""
    code = """
        import os, signal
        counts = []
        def count(*_):
            counts.append(1)
            os.write(1, b"x")
        signal.signal(signal.SIGUSR1, count)
        print("ready", flush=True)
        while len(counts) < 200: pass
    """
    script = tmp_path / "script.py"
    script.write_text("")
    with target(tmp_path, code, asked_by_themselves()[version]) as child:
        assert child.stdout is not None
        asking = ["sh", "-c", 'while "$1" inject "$2" >/dev/null; do :; done', "sh", installed()]
        asks = subprocess.Popen([*asking, json.dumps({"pid": child.pid, "file": str(script)})])
        try:
            for _ in range(200):
                os.kill(child.pid, signal.SIGUSR1)
                assert select.select([child.stdout], [], [], 30)[0], "the signal was lost"
                os.read(child.stdout.fileno(), 1)
            assert child.wait(30) == 0
        finally:
            asks.kill()
            asks.wait()


@each
def test_another_user_may_not(version: str, tmp_path: Path) -> None:
    """contend-probe as nobody, at a process of root; this Python may be where only root may read."""
    if os.geteuid() != 0:
        need(False, "becoming another user needs root")
    code = """
        import os, sys
        program = os.open(sys.argv[1], os.O_RDONLY)
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        os.set_inheritable(program, True)
        os.execve(program, ["contend-probe", "inject", sys.argv[2]], {})
    """
    with target(tmp_path, LOOPS["idle"], asked_by_themselves()[version]) as child:
        words = json.dumps({"pid": child.pid, "file": str(tmp_path / "script.py")})
        told = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), installed(), words],
            capture_output=True,
        )
        answer = json.loads(told.stdout)
        assert (
            answer["bad_input"] and "may not be attached to" in answer["error"] and "sudo" in answer["hint"]
        )
        assert child.poll() is None
