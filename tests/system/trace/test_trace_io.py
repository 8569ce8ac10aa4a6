"""I/O, sleep, run delay and what is else off the CPU are kinds of time of their own: what a hunt says of them is what the
program has measured itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from contend.contention.events import Events, read
from contend.store.trace_summary import summarise

# What one job does, each with stamps of CLOCK_MONOTONIC and of the thread's CPU time around it. The CPU is shared with a
# hog: it is taken away from whoever computes.
PROGRAM = """
import ctypes, json, os, socket, subprocess, sys, threading, time
from contend import trace
directory, told, cpu = sys.argv[1:4]
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
libc = ctypes.CDLL(None)  # its calls are not the interpreter's own
hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
one, other = socket.socketpair()
def answer():
    other.recv(1)
    time.sleep(0.08)
    other.send(b"done")
took = {}
def part(name):
    class Part:
        def __enter__(self):
            self.before = stamp()
        def __exit__(self, *_):
            took[name] = {key: after - self.before[key] for key, after in stamp().items()}
    return Part()
def stamp():
    while True:  # of one moment: the hog did not come between
        wall, cpu = time.monotonic_ns(), time.thread_time_ns()
        with open("/proc/thread-self/schedstat") as file:
            found = {"wall": wall, "cpu": cpu, "delay": int(file.read().split()[1])}
        if time.monotonic_ns() - wall < 300_000:
            return found
trace.start(directory, overflow="block", io=True, cpu_times=bool(int(cpu)), run_delay=bool(int(cpu)))
thread = threading.Thread(target=answer)
thread.start()
with open(told + ".data", "wb", buffering=0) as file, trace.job("boot"):
    with part("compute"), trace.span("compute"):
        until = time.thread_time_ns() + 60_000_000
        while time.thread_time_ns() < until: pass
    with part("ask"), trace.span("ask"):
        one.send(b"?")
        one.recv(4)
    with part("save"), trace.span("save"):
        file.write(bytes(4 << 20))
        os.fsync(file.fileno())
    with part("sleep"), trace.span("pause"):
        time.sleep(0.03)
    with part("native"), trace.span("native"):
        libc.usleep(40_000)
    with part("call"), trace.span("call", kind="remote"):
        time.sleep(0.02)
thread.join()
trace.stop()
hog.kill()
hog.wait()
with open(told, "w") as file:
    json.dump(took, file)
"""
MARGIN_NS = 8_000_000
"""Of CPU time between the stamps and the span, of the kernel's own accounts of switches, and a slice of the hog's: the
tracer reads its three clocks one after the other, and the hog may come between."""

Took = dict[str, dict[str, int]]


def recorded(tmp_path: Path, *, cpu: bool) -> tuple[Events, Took]:
    told = tmp_path / "took.json"
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "trace"), str(told), str(int(cpu))]
    subprocess.run(command, check=True, timeout=60)
    return read(tmp_path / "trace"), json.loads(told.read_text())


def test_the_kinds_of_a_jobs_time_are_what_the_program_measured(tmp_path: Path) -> None:
    events, took = recorded(tmp_path, cpu=True)
    (job,) = events.jobs.to_pylist()
    rows = events.parts.to_pylist()
    for table in (events.parts, events.along, events.critical):
        assert (
            sum(row["ns"] for row in table.to_pylist() if row["job"] == 0) == job["end_ns"] - job["begin_ns"]
        )

    def ns(part: str, *kinds: str) -> int:
        return sum(row["ns"] for row in rows if row["part"] == part and row["kind"] in kinds)

    def off(name: str) -> int:
        """Neither running nor ready, by the kernel's own account."""
        return took[name]["wall"] - took[name]["cpu"] - took[name]["delay"]

    def near(found: int, known: int) -> bool:
        return abs(found - known) <= MARGIN_NS

    assert near(ns("compute", "running"), took["compute"]["cpu"])
    delay = took["compute"]["delay"]
    assert delay > 10_000_000, "the hog took nothing"
    assert near(ns("compute", "cpu"), delay)
    assert near(ns("ask", "io"), off("ask"))
    assert near(ns("save", "io"), off("save"))
    assert near(ns("pause", "sleep"), off("sleep"))
    assert near(ns("native", "blocked"), off("native"))
    assert off("call") - MARGIN_NS <= ns("call", "reply") <= took["call"]["wall"]
    calls = {row["resource"] for row in rows if row["kind"] == "io"}
    assert "recv" in calls and calls & {"fsync", "write"}
    assert {row["resource"] for row in rows if row["kind"] == "sleep"} == {"sleep"}


def test_without_the_threads_times_system_calls_are_told_apart_by_name(tmp_path: Path) -> None:
    events, took = recorded(tmp_path, cpu=False)
    rows = events.parts.to_pylist()
    sums = {row["resource"]: row["ns"] for row in rows if row["kind"] in ("io", "sleep")}
    assert 0 < sums["recv"] <= took["ask"]["wall"]
    assert 30_000_000 <= sums["sleep"] <= took["sleep"]["wall"]
    assert 0 < sums.get("fsync", 0) + sums.get("write", 0) <= took["save"]["wall"]
    assert not any(row["kind"] in ("blocked", "cpu") for row in rows)
    calls = {call.name: call for call in summarise(tmp_path / "trace").system_calls}
    assert calls["recv"].total_ns >= sums["recv"] and calls["sleep"].count >= 3


UNCHANGED = """
import errno, os, select, socket, sys, threading, time
from contend import trace
def fails(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0
def outcomes():
    one, other = socket.socketpair()
    one.settimeout(0.002)
    late = socket.socketpair()
    threading.Timer(0.01, late[1].send, [b"late"]).start()
    read, write = os.pipe()
    child = os.posix_spawn("/bin/true", ["true"], {})
    server = socket.create_server(("127.0.0.1", 0))
    threading.Timer(0.01, lambda: socket.create_connection(server.getsockname()).close()).start()
    poller = select.epoll()
    poller.register(late[0], select.EPOLLIN)
    return [
        fails(lambda: one.recv(1)), late[0].recv(2), bool(poller.poll(1)), late[0].recv(9),
        select.select([read], [], [], 0.001), os.write(write, b"12345"), os.read(read, 3), os.pread(0, 0, 0) if 0 else b"",
        fails(lambda: os.fsync(read)), fails(lambda: os.read(999, 1)), os.waitpid(child, 0)[1], server.accept()[0].recv(1),
        socket.getaddrinfo("127.0.0.1", 80)[0][4], time.sleep(0.001),
    ]
before = outcomes()
trace.start(sys.argv[1], io=True)
meanwhile = outcomes()
trace.stop()
after = outcomes()
assert before == meanwhile == after, (before, meanwhile, after)
trace.start(sys.argv[1], io=True)
if (pid := os.fork()) == 0:
    with trace.span("child"):
        time.sleep(0.01)
    trace.stop()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
time.sleep(0.01)
trace.stop()
"""


def test_calls_do_what_they_did_and_children_of_fork_record_theirs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", UNCHANGED, str(tmp_path / "trace")], check=True, timeout=60)
    files = sorted((tmp_path / "trace").glob("*.ctrace"), key=os.path.getsize)
    assert len(files) == 3
    for file in files:
        assert "sleep" in {call.name for call in summarise(file).system_calls}
