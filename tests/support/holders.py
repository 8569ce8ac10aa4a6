"""A program that knows by itself who holds its locks, and the comparison with what was recorded of its waits."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from support.ctrace_events import INSTANT, LOCK_WAIT, Trace, record

# Everybody writes down, with the clock of the trace, when a lock was asked for, taken, about to be let go and gone.
PROGRAM = """
import json, random, sys, threading, time
KIND, SEED, ROUNDS, NOTES = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
now, notes = time.monotonic_ns, []
locks = [trace.Lock(name="L0"), trace.Lock(name="L1")]
if KIND == "threads": locks.append(trace.RLock(name="L2"))

def use(me, draw, pause):
    number = draw.randrange(len(locks))
    lock = locks[number]
    # Greenlets of one thread must not wait for each other without end.
    timeout = -1 if KIND == "threads" and draw.random() < 0.8 else draw.random() * 0.001
    asked = now()
    if not lock.acquire(timeout=timeout):
        return
    taken = now()
    pause(draw)
    leaving = now()
    lock.release()
    notes.append((me, number, asked, taken, leaving, now()))

def spin_or_sleep(draw):
    if draw.random() < 0.5: time.sleep(draw.random() * 1e-4)
    else:
        for _ in range(draw.randrange(300)): pass

def thread(number):
    draw = random.Random(SEED * 1000 + number)
    trace.instant(f"me {number}")
    for _ in range(ROUNDS):
        use(str(number), draw, spin_or_sleep)
        if draw.random() < 0.3: spin_or_sleep(draw)

def greenlets(number):
    import greenlet
    hub = greenlet.getcurrent()
    draw = random.Random(SEED * 1000 + number)
    def away(draw):
        hub.switch()
        spin_or_sleep(draw)
    def work(me):
        trace.instant(f"me {me}")
        for _ in range(ROUNDS):
            use(me, draw, away)
            hub.switch()
    all_ = [greenlet.greenlet(work) for _ in range(4)]
    for at, one in enumerate(all_): one.switch(f"{number}.{at}")
    while all_:
        one = draw.choice(all_)
        one.switch()
        if one.dead: all_.remove(one)

trace.start(DIRECTORY, clock="monotonic", overflow="block")
threads = [
    threading.Thread(target=thread if KIND == "threads" else greenlets, args=(number,), name=f"t{number}")
    for number in range(6 if KIND == "threads" else 3)
]
for one in threads: one.start()
for one in threads: one.join()
trace.stop()
with open(NOTES, "w") as out: json.dump(notes, out)
"""


class Hold(NamedTuple):
    holder: str
    asked: int
    taken: int
    leaving: int
    left: int


@dataclass(frozen=True)
class Tally:
    """Of contended waits."""

    waits: int
    """All."""
    certain: int
    """Where one was between its notes of having taken the lock and of letting it go: nobody else can have been it."""
    wrong: tuple[str, ...]
    """What the recorded one is instead: not the certain one, or one that cannot have held it then."""


def campaign(kind: str, seed: int, rounds: int, directory: Path) -> Tally:
    """`kind` is threads or greenlets."""
    notes = directory / "notes.json"
    told = record(PROGRAM, directory / "trace", kind, str(seed), str(rounds), str(notes))
    return judge(told, json.loads(notes.read_text()))


def judge(told: Trace, notes: list[tuple[str, int, int, int, int, int]]) -> Tally:
    """Every recorded wait by the notes.

    Who asks keeps the interpreter's lock from reading the holder until the event is made, and no holder lets go without
    it: whoever is recorded must hold the lock at the time of the event itself.
    """
    names = {e.track: e.name.removeprefix("me ") for e in told.of(INSTANT) if e.name.startswith("me ")}
    holds: dict[str, list[Hold]] = defaultdict(list)
    for me, lock, *times in sorted(notes, key=lambda note: note[3]):
        holds[f"L{lock}"].append(Hold(me, *times))
    taken = {lock: [hold.taken for hold in of] for lock, of in holds.items()}
    waits, certain, wrong = 0, 0, []
    for wait in told.of(LOCK_WAIT):
        waits += 1
        at = bisect_right(taken[wait.name], wait.ticks)
        near = [h for h in holds[wait.name][max(0, at - 8) : at + 8] if h.asked <= wait.ticks <= h.left]
        sure = {hold.holder for hold in near if hold.taken <= wait.ticks < hold.leaving}
        certain += len(sure)
        possible = sure or {hold.holder for hold in near}
        recorded = names.get(wait.value, f"track {wait.value}")
        if recorded not in possible:
            wrong.append(f"{wait.name} at {wait.ticks}: recorded {recorded}, possible {sorted(possible)}")
    return Tally(waits, certain, tuple(wrong))
