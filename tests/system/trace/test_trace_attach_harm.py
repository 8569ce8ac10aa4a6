"""What `contend-probe inject` must never do to a process: write over its memory, or leave it half-way when it is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from contend.probes.client import installed
from support.attach_lives import life
from support.attach_targets import BUSY, STRESSED, WAITING, target
from support.kills import fresh_seed
from support.sudden_ends import end_at

pytestmark = [
    pytest.mark.needs(os.uname().machine == "x86_64", "attaching is made for x86-64"),
]

# Its main thread waits in a signal's handler on a small stack of its own, as faulthandler gives it, with much below it.
ON_A_STACK_OF_ITS_OWN = """
    import ctypes
    class Stack(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
    class Action(ctypes.Structure):
        _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int),
                    ("restorer", ctypes.c_void_p)]
    libc = ctypes.CDLL(None)
    BELOW, SIZE, SA_ONSTACK = 256 << 10, 16 << 10, 0x08000000
    memory = mmap.mmap(-1, BELOW + SIZE)
    memory[:BELOW] = b"\\xa5" * BELOW
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + BELOW
    assert libc.sigaltstack(ctypes.byref(Stack(place, 0, SIZE)), None) == 0
    handler = Action(ctypes.cast(libc.pause, ctypes.c_void_p).value, (ctypes.c_ulong * 16)(), SA_ONSTACK, None)
    assert libc.sigaction(signal.SIGUSR1, ctypes.byref(handler), None) == 0
    signal.signal(signal.SIGUSR2, lambda *_: None)
    def watch():
        while not Path("/proc/self/syscall").read_text().startswith("34 "): time.sleep(0.001)  # pause
        print("ready", flush=True)
        for done in range(1, 1 << 62):
            assert memory[:BELOW] == b"\\xa5" * BELOW, os._exit(3)
            progress[:] = done.to_bytes(8, "little")
            time.sleep(0.001)
    from pathlib import Path
    threading.Thread(target=watch, daemon=True).start()
    signal.raise_signal(signal.SIGUSR1)
    print("went on", flush=True)
    while True: time.sleep(0.01)
"""

# As in a container: a system call of no known number is refused, which also writes to a register.
FILTERED = (
    """
    import ctypes, struct
    LOAD, IF_ABOVE, RETURN, ALLOW, ERRNO = 0x20, 0x25, 0x06, 0x7FFF0000, 0x50000
    words = [(LOAD, 0, 0, 0), (IF_ABOVE, 0, 1, 1000), (RETURN, 0, 0, ERRNO | 1), (RETURN, 0, 0, ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
    class Filter(ctypes.Structure): _fields_ = [("count", ctypes.c_ushort), ("words", ctypes.c_void_p)]
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
    libc, found = ctypes.CDLL(None), Filter(len(words), ctypes.addressof(program))
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(found), 0, 0) == 0
"""
    + BUSY
)


def order(pid: int, script: str = "pass", *, main_only: bool = False) -> tuple[str, ...]:
    return (str(installed()), "inject", json.dumps({"pid": pid, "script": script, "main_only": main_only}))


def injected(pid: int, script: str = "pass", *, main_only: bool = False) -> dict[str, object]:
    words = order(pid, script, main_only=main_only)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    told: dict[str, object] = json.loads(done.stdout)
    assert "error" not in told, told
    return told


@pytest.mark.parametrize("way", ["thread", "pending"])
def test_what_lies_below_a_handlers_own_stack_stays_as_it_is(way: str, tmp_path: Path) -> None:
    """faulthandler's is 17 KB on the heap: a call that ran 16 KB below where the thread stood ran on other objects."""
    with target(tmp_path, ON_A_STACK_OF_ITS_OWN) as child:
        assert injected(child.pid, main_only=way == "pending")["way"] == way
        assert child.goes_on(3, blocked=(signal.SIGUSR1,)), "its memory was written over"
        os.kill(child.pid, signal.SIGUSR2)
        assert child.process.stdout is not None
        assert child.process.stdout.readline() == "went on\n"


def test_it_maps_its_pages_once(tmp_path: Path) -> None:
    with target(tmp_path, BUSY) as child:
        for number in range(3):
            injected(child.pid, f"open('ran', 'a').write('{number}')")
            assert child.goes_on()
        assert (tmp_path / "ran").read_text() == "012"
        maps = Path(f"/proc/{child.pid}/maps").read_text().splitlines()
        ours = [words for line in maps if len(words := line.split()) == 5 and words[1] == "r-xp"]
        assert len(ours) == 1, ours


def test_under_a_filter_of_system_calls_it_goes_on(tmp_path: Path) -> None:
    with target(tmp_path, FILTERED) as child:
        assert "Seccomp:\t2" in Path(f"/proc/{child.pid}/status").read_text()
        for _ in range(30):
            injected(child.pid)
        assert child.goes_on()


def test_attached_to_again_and_again_it_goes_on(tmp_path: Path) -> None:
    """With debug hooks around all of its memory; a thousand times: tests/accept/test_attach_campaign.py."""
    seed = fresh_seed()
    with target(tmp_path, STRESSED, "-X", "dev") as child:
        told = life(child, tmp_path, random.Random(seed), attaches=5)
    assert told["ended"] is None and len(told["stopped_ns"]) == 5, (seed, told)


@pytest.mark.parametrize(("name", "code"), [("busy", BUSY), ("waiting", WAITING)])
def test_killed_at_any_moment_it_leaves_the_process_as_it_was(name: str, code: str, tmp_path: Path) -> None:
    """Some of the moments; all of them: tests/accept/test_attach_campaign.py."""
    every = 12
    seed = fresh_seed()
    for number in range(seed % every, 1000, every):
        with target(tmp_path / str(number), code) as child:
            killed = end_at(order(child.pid), number)
            assert child.goes_on(), f"{name}, seed {seed}: killed at its system call {number}"
            injected(child.pid)
            assert child.goes_on()
        if not killed:
            break
    assert number > every
