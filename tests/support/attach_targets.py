"""Programs to be attached to that check themselves, and say in a file how far they are."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Work whose result tells if a single step of it was disturbed: bytes, floats in registers, and what waits tell.
_BEGIN = """
    import hashlib, mmap, os, select, signal, sys, threading, time
    with open("progress", "wb") as file: file.write(bytes(8))
    with open("progress", "r+b") as file: progress = mmap.mmap(file.fileno(), 8)
    def chain(rounds):
        state, number = b"seed", 1.0
        for step in range(rounds):
            state = hashlib.sha256(state).digest(); number = (number * 1.0000001 + step % 7) % 1e6
        return state, number
"""
BUSY = """
    expected = chain(2000)
    print("ready", flush=True)
    for done in range(1, 1 << 62):
        assert chain(2000) == expected
        progress[:] = done.to_bytes(8, "little")
"""
WAITING = """
    lock = threading.Lock(); lock.acquire()
    quiet, _keep = os.pipe()
    poll = select.poll(); poll.register(quiet, select.POLLIN)
    print("ready", flush=True)
    for done in range(1, 1 << 62):
        began = time.monotonic()
        time.sleep(0.01)
        assert not lock.acquire(timeout=0.01)
        assert poll.poll(10) == [] and select.select([quiet], [], [], 0.01)[0] == []
        assert time.monotonic() - began >= 0.04
        progress[:] = done.to_bytes(8, "little")
"""

# Everything at once: signals that are handled on a stack of its own (with -X faulthandler), threads that come and go,
# that change places at nearly each bytecode, collections all the time.
STRESSED = """
    import gc
    sys.setswitchinterval(1e-5); gc.set_threshold(50, 5, 5)
    def digest(text): return hashlib.sha256(text).digest()
    def work(rounds):
        state, kept = b"seed", []
        for step in range(rounds): state = digest(state); kept.append([state]); kept[-1].append(kept)
        return state
    expected = work(200)
    def check(rounds=200):
        if work(rounds) != expected: os._exit(3)
    def go_on():
        while True: check()
    def come_and_go():
        while True:
            thread = threading.Thread(target=check); thread.start(); thread.join()
    alarms = 0
    def on_alarm(*_):
        global alarms; alarms += 1
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
    for other in (go_on, come_and_go): threading.Thread(target=other, daemon=True).start()
    print("ready", flush=True)
    for done in range(1, 1 << 62):
        check(); progress[:] = done.to_bytes(8, "little")
"""


class Target:
    """One that runs."""

    def __init__(self, directory: Path, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self.process = process
        self._progress = directory / "progress"

    def goes_on(self, rounds: int = 2, *, blocked: tuple[signal.Signals, ...] = ()) -> bool:
        """Whether it gets that much further, undisturbed, with just those signals blocked; not in a minute is never."""
        until, deadline = self._done() + rounds, time.monotonic() + 60
        while self._done() < until:
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        wanted = sum(1 << (number - 1) for number in blocked)
        # While the handler of another runs, that one is blocked too.
        return any(self._blocked() == wanted for _look in range(1000))

    def _done(self) -> int:
        return int.from_bytes(self._progress.read_bytes(), "little")

    def _blocked(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("SigBlk")), 16)


@contextmanager
def target(directory: Path, code: str, *options: str) -> Iterator[Target]:
    """Runs in that directory until the end of the block; `options` are the interpreter's."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "program.py").write_text(textwrap.dedent(_BEGIN) + textwrap.dedent(code))
    with (directory / "stderr").open("w") as stderr:
        child = subprocess.Popen(
            [sys.executable, *options, "program.py"],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n", (directory / "stderr").read_text()
        yield Target(directory, child)
    finally:
        child.kill()
        child.communicate()
