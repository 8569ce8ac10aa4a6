"""eventlet and gevent: a monkey-patched program runs traced as it runs without, and its locks are on record."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.ctrace_events import (
    FLOW_IN,
    FLOW_OUT,
    LOCK_ACQUIRED,
    LOCK_GIVEN_UP,
    LOCK_WAIT,
    Event,
    Trace,
    read_all,
)
from support.prerequisites import need
from support.traced_program import CONTEND, PATH, traced


def plain(code: str, directory: Path, *before: str) -> str:
    """What a program prints that ends without a fault; DIRECTORY is there for a recording of its own."""
    program = directory / "program.py"
    program.write_text(f"DIRECTORY = {str(directory / 'own')!r}\n{code}")
    done = subprocess.run(
        [*before, sys.executable, str(program)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "greened" not in done.stderr, done.stderr
    return done.stdout


PATCH = {
    "eventlet": "import eventlet; eventlet.monkey_patch()\nfrom eventlet import sleep, spawn",
    "gevent": "from gevent import monkey; monkey.patch_all()\nfrom gevent import sleep, spawn",
}
LIBRARIES = pytest.mark.parametrize("library", sorted(PATCH))


def patched(library: str, code: str, before: str = "") -> str:
    need(importlib.util.find_spec(library), f"{library} is not installed: pip install {library}")
    return f"{before}\n{PATCH[library]}\n" + code


def holder(told: Trace, wait: Event) -> str:
    return told.tracks[wait.value].name if wait.value else ""


LOCKS = """
import threading, time, queue, logging
class Service:
    def __init__(self):
        self.lock = threading.Lock()
        self.again = threading.RLock()
        self.gate = threading.Semaphore(1)
        self.ready = threading.Event()
        self.changed = threading.Condition()
        self.tasks = queue.Queue()
service = Service()
logs = [], [], []
def work(number):
    for step, (lock, log) in enumerate(zip((service.lock, service.again, service.gate), logs)):
        with lock:
            log.append(number); sleep(0.002 * 3**step); log.append(number)
    with service.again, service.again:
        sleep(0.001)
threads = [threading.Thread(target=work, args=(number,), name=f"green-{number}") for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for log in logs: assert log[::2] == log[1::2] and len(log) == 6, logs
for lock in (service.lock, service.again, service.gate, service.changed):
    try:
        with lock: raise KeyError
    except KeyError: pass
    else: raise AssertionError("an exception ends there")
def waits():
    assert service.ready.wait(5)
    with service.changed: assert service.changed.wait(5)
    assert service.tasks.get(timeout=5) == 7
waiter = spawn(waits)
sleep(0.01); service.ready.set(); sleep(0.01)
with service.changed: service.changed.notify_all()
sleep(0.01); service.tasks.put(7); sleep(0.01)
assert not service.lock.acquire(False) if service.lock.acquire() else False
assert not service.lock.acquire(timeout=0.01)
service.lock.release()
"""


@LIBRARIES
def test_threadings_own_locks_when_they_are_green(library: str, tmp_path: Path) -> None:
    (told,) = traced(tmp_path, patched(library, LOCKS))
    waits = told.of(LOCK_WAIT)
    names = {wait.name for wait in waits}
    assert {"Service.lock", "Service.again", "Service.gate", "Service.ready", "Service.tasks"} <= names, names
    for name in ("Service.lock", "Service.again", "Service.gate"):
        of_greens = [wait for wait in waits if wait.name == name and told.tracks[wait.track].kind == 2]
        # On its way from one to the next nobody holds it.
        held = [wait for wait in of_greens if wait.value]
        assert held, name
        for wait in held:
            assert told.tracks[wait.value].kind == 2 and wait.value != wait.track, wait


OWN = {
    "eventlet": """
from eventlet import event, queue, semaphore, greenpool, tpool
class Service:
    def __init__(self):
        self.gate = semaphore.Semaphore(1)
        self.pair = semaphore.BoundedSemaphore(2)
        self.said = event.Event()
        self.tasks = queue.Queue(1)
        self.pool = greenpool.GreenPool(3)
""",
    "gevent": """
from gevent import event, queue, lock, pool
class Service:
    def __init__(self):
        self.gate = lock.Semaphore(1)
        self.pair = lock.BoundedSemaphore(2)
        self.again = lock.RLock()
        self.said = event.AsyncResult()
        self.tasks = queue.Queue(1)
        self.pool = pool.Pool(3)
""",
}
USES = """
service = Service()
def work(number):
    with service.pair: sleep(0.002)
    with service.gate: sleep(0.002)
def consume():
    for _ in range(3): service.tasks.get(); sleep(0.002)
def listen():
    assert (service.said.get if hasattr(service.said, "get") else service.said.wait)() == "said"
for number in range(4): service.pool.spawn(work, number)
for lock in (service.gate, service.pair):
    try:
        with lock: raise KeyError
    except KeyError: pass
    else: raise AssertionError("an exception ends there")
consumer = spawn(consume)
listener = spawn(listen)
for item in range(3): service.tasks.put(item)
(service.said.send if hasattr(service.said, "send") else service.said.set)("said")
(service.pool.waitall if hasattr(service.pool, "waitall") else service.pool.join)()
for one in (consumer, listener): (one.wait if hasattr(one, "wait") else one.join)()
"""


@LIBRARIES
def test_the_librarys_own_locks_queues_and_pools(library: str, tmp_path: Path) -> None:
    (told,) = traced(tmp_path, patched(library, OWN[library] + USES).replace("monkey_patch()", "sleep(0)"))
    waits = told.of(LOCK_WAIT)
    names = {wait.name for wait in waits}
    assert {"Service.gate", "Service.pair", "Service.said", "Service.tasks", "Service.pool"} <= names, names
    held = [
        wait for wait in waits if wait.name == "Service.gate" and wait.value
    ]  # it is nobody's when it is handed on
    assert held and all(told.tracks[wait.value].kind == 2 and wait.value != wait.track for wait in held)


TURNS = """
import threading
class Machine:
    def __init__(self):
        self.turn = threading.Condition()
        self.busy = False
machine = Machine()
def work():
    with machine.turn:
        while machine.busy: machine.turn.wait()
        machine.busy = True
    sleep(0.002)
    with machine.turn:
        machine.busy = False
        machine.turn.notify()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@LIBRARIES
def test_the_lock_of_a_condition_is_on_record_beside_its_waits(library: str, tmp_path: Path) -> None:
    (told,) = traced(tmp_path, patched(library, TURNS))
    of = {number: lock for number, lock in told.locks.items() if lock.name == "Machine.turn"}
    conditions = {number for number, lock in of.items() if lock.kind == 4}
    assert sum(wait.id in conditions for wait in told.of(LOCK_WAIT)) == 3
    # Twice for each, and once more for each that has waited.
    taken = [event for event in told.of(LOCK_ACQUIRED) if event.id in of.keys() - conditions]
    assert len(taken) == 4 * 2 + 3


SPAWNS = """
import threading
def work(): sleep(0.001)
thread = threading.Thread(target=work); thread.start(); thread.join()
for one in [spawn(work) for _ in range(3)]: (one.wait if hasattr(one, "wait") else one.join)()
"""


@LIBRARIES
def test_a_greenlet_is_a_flow_from_where_it_was_made_to_where_it_first_runs(
    library: str, tmp_path: Path
) -> None:
    (told,) = traced(tmp_path, patched(library, SPAWNS))
    out = {event.args[""]: event for event in told.of(FLOW_OUT) if event.name == "spawn"}
    first = [event for event in told.of(FLOW_IN) if event.name == "spawn"]
    assert len(out) == len(first) == 4 and len({event.track for event in first}) == 4
    for event in first:
        made = out[event.args[""]]
        assert told.tracks[event.track].kind == 2 and made.track != event.track and made.ticks < event.ticks


def test_tpool_is_a_flow_to_a_thread_and_a_wait(tmp_path: Path) -> None:
    code = """
from eventlet import tpool
import threading
def native(number):
    assert number == 3
    return threading.get_native_id()
def fails(): raise KeyError("x")
assert tpool.execute(native, 3) != threading.get_native_id()
try: tpool.execute(fails)
except KeyError: pass
else: raise AssertionError
assert tpool.Proxy([1, 2]).count(2) == 1
eventlet.spawn(tpool.execute, native, 3).wait()
"""
    (told,) = traced(tmp_path, patched("eventlet", code))
    sent, received = told.of(FLOW_OUT), told.of(FLOW_IN)
    assert [event.name for event in sent].count("tpool") == 4
    out = {event.args[""]: event for event in sent if event.name == "tpool"}
    assert [event.name for event in received].count("tpool") == 4
    for event in received:
        if event.name == "tpool":
            assert told.tracks[event.track].kind == 1 and out[event.args[""]].ring != event.ring
    assert {"tpool native", "native", "tpool fails", "fails"} <= {span[1] for span in told.spans()}


EXISTING = """
import threading, logging, importlib
from contend import trace
trace.start(DIRECTORY)
class Made:
    lock, again, gate = trace.Lock(), trace.RLock(), trace.Semaphore(1)
    changed, tasks = trace.Condition(), trace.Queue(2)
Made.again.acquire()
"""
EXISTING_USED = """
Made.again.release()
def hold(lock, log, number):
    for _ in range(5):
        with lock:
            log.append(number); sleep(0.001); log.append(number)
for lock in (Made.lock, Made.again, Made.gate, trace.Lock(), trace.RLock(), trace.Condition()):
    log = []
    greens = [spawn(hold, lock, log, number) for number in range(4)]
    for green in greens: (green.wait if hasattr(green, "wait") else green.join)()
    assert len(log) == 40 and log[::2] == log[1::2], log
with Made.again:
    taken = []
    green = spawn(lambda: taken.append(Made.again.acquire(timeout=0.02)))
    (green.wait if hasattr(green, "wait") else green.join)(); assert taken == [False], taken
def tells():
    with Made.changed: Made.changed.notify()
    for item in range(5): Made.tasks.put(item)
spawn(tells)
with Made.changed: assert Made.changed.wait(5)
assert [Made.tasks.get(timeout=5) for _ in range(5)] == list(range(5))
# A thread that is not green lets go of what a greenlet waits for.
import time
Made.lock.acquire()
def native(): time_sleep(0.02); Made.lock.release()
start_native(native, ())
assert Made.lock.acquire(timeout=5); Made.lock.release()
trace.stop()
"""


@LIBRARIES
def test_drop_ins_made_before_and_after_the_monkey_patch_wait_as_greenlets_do(
    library: str, tmp_path: Path
) -> None:
    natives = "from _thread import start_new_thread as start_native\nfrom time import sleep as time_sleep\n"
    plain(patched(library, EXISTING_USED, before=natives + EXISTING), tmp_path)


# A lock that is held for long: whoever waits looks again now and then, and stays where it is in the row.
IN_A_ROW = """
from contend import trace
from contend.trace import greens
lock, looks, taken = trace.Lock(), [], []
make = greens._semaphore
greens._semaphore = lambda: (looks.append(1), make())[1]
def places():
    (row,) = greens._waiting.values()
    return [place for place, _ in row]
def take(number):
    with lock: taken.append(number)
lock.acquire()
waiting = [spawn(take, number) for number in range(3)]
while len(looks) < 3: sleep(0.001)
row = places()
assert len(set(row)) == 3 and row == sorted(row), row
while len(looks) < 9: sleep(0.001)
assert places() == row, (places(), row)
lock.release()
for one in waiting: (one.wait if hasattr(one, "wait") else one.join)()
assert sorted(taken) == [0, 1, 2] and not greens._waiting
"""


@LIBRARIES
def test_who_waits_for_long_keeps_its_place(library: str, tmp_path: Path) -> None:
    plain(patched(library, IN_A_ROW), tmp_path)


AFTERWARDS = """
from contend import trace
import threading
trace.start(DIRECTORY)
queue = trace.Queue(2)
lock = trace.Lock()
ordered = trace.PriorityQueue()
def put():
    for item in range(5): queue.put(item)
    with lock: queue.put("end")
lock.acquire()
thread = threading.Thread(target=put)
thread.start()
assert [queue.get(timeout=5) for _ in range(5)] == list(range(5))
lock.release(); thread.join()
assert queue.get() == "end"
ordered.put(2); ordered.put(1)
assert ordered.get() == 1
with trace.Semaphore(), trace.RLock(), trace.Condition(): pass
trace.stop()
"""


@LIBRARIES
def test_the_library_is_imported_after_the_monkey_patch(library: str, tmp_path: Path) -> None:
    plain(patched(library, AFTERWARDS), tmp_path)
    (told,) = read_all(tmp_path / "own")
    assert "lock" in {wait.name for wait in told.of(LOCK_WAIT)}


RANDOM = """
from contend import trace
import random, threading
kill = getattr(sys.modules["%s"], "kill")
draw = random.Random(4711)
locks = [trace.Lock(name="ours"), trace.RLock(name="again"), trace.Condition(name="changed")]
locks += [threading.Lock(), threading.RLock()]
inside = [0] * len(locks)
ended = []
def work(number):
    try:
        for _ in range(20):
            at = draw.randrange(len(locks))
            if locks[at].acquire(timeout=draw.choice([-1, 5, 0.001])):
                try:
                    inside[at] += 1
                    assert inside[at] == 1, "two hold it"
                    sleep(draw.choice([0, 0, 0.0005]))
                finally:
                    inside[at] -= 1
                    locks[at].release()
            else: sleep(0)
    finally: ended.append(number)
greens = [spawn(work, number) for number in range(30)]
while len(ended) < 20: sleep(0.001)
for one in greens[::3]: kill(one)
for one in greens[1::3] + greens[2::3]: (one.wait if hasattr(one, "wait") else one.join)()
sleep(0.01)
assert sorted(ended) == list(range(30)) and inside == [0] * len(locks)
assert all(lock.acquire(timeout=1) for lock in locks)
"""


@LIBRARIES
def test_waits_that_time_out_and_greenlets_that_are_killed(library: str, tmp_path: Path) -> None:
    (told,) = traced(tmp_path, "import sys\n" + patched(library, RANDOM % library))
    waiting: dict[int, list[str]] = {}
    for event in told.of(LOCK_WAIT, LOCK_ACQUIRED, LOCK_GIVEN_UP):
        open_ = waiting.setdefault(event.track, [])
        if event.kind == LOCK_WAIT:
            open_.append(event.name)
        elif event.kind == LOCK_GIVEN_UP or event.value & 1:  # waited for; above it: for how long at most
            assert open_.pop() == event.name
    assert not any(waiting.values())
    assert {"ours", "again"} <= {wait.name for wait in told.of(LOCK_WAIT)}


RUN_BOTH_WAYS = """
import logging, threading, importlib, sys, os, time
assert type(threading.RLock()).__module__ == "threading", type(threading.RLock())
lock = threading.RLock()
assert isinstance(lock, type(threading.RLock()))
logger = logging.getLogger("x"); logger.addHandler(logging.StreamHandler(sys.stdout))
def speak(number):
    for _ in range(3): logger.warning("said"); sleep(0)
    local.value = number; sleep(0); assert local.value == number
    importlib.import_module("colorsys")
local = threading.local()
threads = [threading.Thread(target=speak, args=(number,)) for number in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join(10)
assert not any(thread.is_alive() for thread in threads)
print(sorted(type(thing).__module__ for thing in (threading.Lock(), threading.local(), threading.Event())))
pid = os.fork()
if pid == 0:
    with lock: logger.warning("child")
    sys.stdout.flush(); os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
left = threading.Thread(target=lambda: (sleep(0.05), print("left")))
left.start()
"""


@LIBRARIES
def test_a_program_runs_as_it_runs_without(library: str, tmp_path: Path) -> None:
    before = (
        "import logging, threading, queue, concurrent.futures\nearly = threading.RLock(); early.acquire()\n"
    )
    code = patched(library, RUN_BOTH_WAYS + "early.release()\n", before=before)
    expected = plain(code, tmp_path)
    assert plain(code, tmp_path, *CONTEND, "-o", "t", "--") == expected
    assert len(read_all(tmp_path / "t")) == 2
