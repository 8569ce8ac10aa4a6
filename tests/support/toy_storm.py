"""A storm of real threads whose truth is known: N jobs, two locks, a pool of workers, traced by `contend.trace` itself.

A job prepares, then claims: it holds `resource` and, meanwhile, calls the workers (`updates` calls of `update`, one
item each) and audits. Then it plugs (longer calls, outside locks), spawns (many short holds of `hypervisor`) and
reports (the same call again and again, with the same arguments). A call is an item in a worker's queue and an answer
in the job's own; the worker takes `call_ms + item_ms * items` for it. With `pool="fixed"` a job's items go to the
worker that its number is hashed to, with "shared" all workers take from one queue.

All durations are sleeps (blocked regime) and drawn from the seed, by job and step: two storms with one seed differ in
their edit only. With `busy=1` the same durations are CPU time, under the GIL. Edits: `hold` scales what a holder itself
does (not what it waits for) while it has the lock; `without` leaves spans out; `coalesce` puts so many updates into
one call; `pool`, `workers`, `jobs`. What a storm did is told by its own clocks (`Truth`), never from the trace.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MS = 1_000_000
DISTURBED = 0.03  # of a storm, in which nothing of it ran
LATE = 0.035  # of what its sleeps last, by which they were late: a host that takes a little again and again
SPREAD = 0.3  # a duration is drawn from its mean ± so much of it


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a storm is; durations are means."""

    jobs: int = 64
    seed: int = 1
    workers: int = 4
    pool: Literal["fixed", "shared"] = "fixed"
    prepare_ms: float = 30
    claim_ms: float = 6.0
    audit_ms: float = 4.0
    """Part of the claim, in a span of its own."""
    updates: int = 8
    plugs: int = 3
    plug_items: int = 24
    spawns: int = 10
    spawn_ms: float = 1.0
    """Of each hold of `hypervisor`, and of each pause between them."""
    reports: int = 3
    call_ms: float = 0.8
    item_ms: float = 0.3
    hold: Mapping[str, float] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    coalesce: int = 1
    scale: float = 1.0
    """Of all durations."""
    busy: float = 0
    """Part of each duration that is CPU time, under the GIL; the rest is slept."""
    green: bool = False
    """All its threads are eventlet's greenlets, on one thread."""
    realtime: bool = False
    """SCHED_FIFO for all its threads: sleeps end on time on a host that others use. Needs root or CAP_SYS_NICE."""


def drawn(seed: int) -> Parameters:
    """Another storm for each seed: now this resource is the bottleneck, now that, by 8 to 20 ms a job or so."""
    draw = random.Random(f"storm {seed}")
    of = Parameters(
        seed=seed,
        workers=draw.randint(2, 6),
        pool=draw.choice(["fixed", "shared"]),
        prepare_ms=draw.uniform(10, 60),
        claim_ms=draw.uniform(1, 12),
        audit_ms=draw.uniform(0.5, 6),
        updates=draw.randint(1, 12),
        plugs=draw.randint(0, 4),
        plug_items=draw.randint(4, 32),
        spawns=draw.randint(2, 20),
        spawn_ms=draw.uniform(0.3, 1.5),
        reports=draw.randint(0, 4),
        call_ms=draw.uniform(0.4, 1.6),
        item_ms=draw.uniform(0.1, 0.5),
    )
    return dataclasses.replace(of, scale=draw.uniform(8, 20) / max(demands(of).values()))


def demands(of: Parameters) -> dict[str, float]:
    """ms of each resource per job, if nobody waits while holding it and items are evenly spread."""
    update, plug, report = (of.call_ms + of.item_ms * items for items in (1, of.plug_items, 1))
    return {
        "resource": of.claim_ms + of.audit_ms + of.updates * update,
        "hypervisor": of.spawns * of.spawn_ms,
        "pool": (of.updates * update + of.plugs * plug + of.reports * report) / of.workers,
    }


# Each of these alone, on the same seed, for Parameters().
EDITS: dict[str, dict[str, Any]] = {
    "hold": {"hold": {"resource": 0.5}},
    "remove": {"without": ("audit",)},
    "coalesce": {"coalesce": 8},
    "global queue": {"pool": "shared"},
    "workers": {"workers": 8},
}

# `resource` lets jobs go to `hypervisor` one by one, a little slower than that can take them. Made shorter, it lets
# them all in: their many short holds take turns, everybody is done at the end, and the median grows while the last
# job is done sooner.
WORSENED = Parameters(
    claim_ms=12.0, audit_ms=0.0, updates=1, plugs=1, plug_items=2, reports=1, spawns=20, spawn_ms=0.5
)
WORSENING: dict[str, Any] = {"hold": {"resource": 0.4}}


def realtime() -> bool:
    """Whether `Parameters.realtime` can be had here."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


@dataclass(frozen=True, slots=True)
class Truth:
    """What a storm did by its own clocks: CLOCK_MONOTONIC, ns, as the trace's."""

    parameters: Parameters
    started: tuple[int, ...]
    """By job."""
    ended: tuple[int, ...]
    waited: Mapping[str, int]
    """By lock: from asking to having it, of all waits together."""
    held: Mapping[str, int]
    waited_least: Mapping[str, int]
    held_most: Mapping[str, int]
    """What both may be as well: see `Storm.bounds`."""
    served: tuple[tuple[str, int, int], ...]
    """Call, items, ns from an item's receipt to its worker's being free again."""
    lateness: int
    """ns by which the median sleep was late."""
    latest: int
    """The same of the one that was latest: so long nothing of the storm may have run, without its being in the trace."""
    own: Mapping[str, int]
    """By lock: what its holders did themselves, of all together, ns. Of a storm with `hold`, as a part of that of the same
    storm without, it is what the edit came to: the more threads run the later sleeps end, and that is not halved."""
    late: float = 0.0
    """By how much all sleeps together were later than the median one, as a part of what they lasted."""

    @property
    def disturbed(self) -> bool:
        """Whether the host took the processors for long, or for a little again and again."""
        return self.latest > DISTURBED * self.makespan or self.late > LATE

    @property
    def durations(self) -> list[int]:
        return [end - start for start, end in zip(self.started, self.ended, strict=True)]

    @property
    def median(self) -> float:
        return statistics.median(self.durations)

    @property
    def p90(self) -> float:
        return statistics.quantiles(self.durations, n=10)[-1]

    @property
    def makespan(self) -> int:
        return max(self.ended) - min(self.started)


def storm(
    directory: Path, parameters: Parameters | None = None, *, timeout: float = 120, **changed: Any
) -> Truth:
    """Run it in a process of its own, which leaves its trace in `directory`; `changed` are fields of Parameters."""
    parameters = dataclasses.replace(parameters or Parameters(), **changed)
    # What is green is recorded from outside: that reaches eventlet's own locks.
    outside = [
        sys.executable,
        "-c",
        "from contend.cli import main; main()",
        "trace",
        "-o",
        str(directory),
        "--",
    ]
    done = subprocess.run(
        [
            *(outside if parameters.green else []),
            sys.executable,
            "-m",
            "support.toy_storm",
            str(directory),
            json.dumps(dataclasses.asdict(parameters)),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])
    assert not told.pop("lost"), "events were dropped"
    told["served"] = [tuple(row) for row in told["served"]]
    return Truth(parameters, **{k: tuple(v) if isinstance(v, list) else v for k, v in told.items()})


def undisturbed(directory: Path, parameters: Parameters | None = None, **changed: Any) -> Truth:
    """A storm beside which the host did not take the processors for long: recorded again if it did, four times at most.

    Where it did, a replay is refused for what the host did, and rightly so.
    """
    for attempt in range(5):
        place = directory.with_name(f".{directory.name}-{attempt}")
        truth = storm(place, parameters, **changed)
        if not truth.disturbed:
            break
    place.rename(directory)
    return truth


class Storm:
    """In the process that is traced."""

    def __init__(self, of: Parameters) -> None:
        from contend import trace

        self.of, self.trace = of, trace
        self.locks: dict[str, Any] = {
            "resource": trace.Lock(name="resource"),
            "hypervisor": trace.Lock(name="hypervisor"),
        }
        if of.green:
            resource, hypervisor = threading.Lock(), threading.Lock()
            self.locks = {"resource": resource, "hypervisor": hypervisor}
        self.asked: dict[str, list[tuple[int, int, int, int]]] = {name: [] for name in self.locks}
        queues = 1 if of.pool == "shared" else of.workers
        self.queues: list[Any] = [trace.Queue(name="pool") for _ in range(queues)]
        self.served: list[tuple[str, int, int]] = []
        self.late: list[int] = []
        self.slept = 0
        self.own: dict[str, list[int]] = {name: [] for name in self.locks}
        self.usual_lateness_s = 0.0
        self.times: dict[int, tuple[int, int]] = {}
        self.begin = threading.Event()

    def pause(self, ms: float, part: float = 1.0, holding: str = "") -> None:
        """So long, or a part of it: then also of what every sleep takes longer than it should, as it is a part of all that
        a holder does. holding: the lock that is held meanwhile."""
        began, length = time.monotonic_ns(), ms * self.of.scale * part
        if self.of.busy:
            end = time.thread_time_ns() + self.of.busy * length * MS
            while time.thread_time_ns() < end:
                pass
        if self.of.busy < 1:
            sleeps = (1 - self.of.busy) * length / 1000 - (1 - part) * self.usual_lateness_s
            time.sleep(max(0.0, sleeps))
            self.late.append(time.monotonic_ns() - began - int(length * MS))
            self.slept += int(length * MS)
        if holding:
            self.own[holding].append(time.monotonic_ns() - began)

    @contextmanager
    def have(self, name: str) -> Iterator[float]:
        """The lock, and by what to scale what is done meanwhile."""
        lock = self.locks[name]
        asked = time.monotonic_ns()
        with lock:
            taken = time.monotonic_ns()
            yield self.of.hold.get(name, 1.0)
            left = time.monotonic_ns()
        self.asked[name].append((asked, taken, left, time.monotonic_ns()))

    @contextmanager
    def step(self, name: str) -> Iterator[bool]:
        """A span, and whether it is to be done at all."""
        if name in self.of.without:
            yield False
            return
        with self.trace.span(name):
            yield True

    def work(self, queue: Any) -> None:
        """A worker, until it gets None."""
        while (item := queue.get()) is not None:
            began = time.monotonic_ns()
            name, items, flow, ms, answers = item
            with self.trace.span(f"serve {name}", items=items):
                self.trace.flow.received("call", flow)
                self.pause(ms)
                answers.put(self.trace.flow.sent("answer"))
            self.served.append((name, items, time.monotonic_ns() - began))

    def job(self, number: int) -> None:
        of, draw = self.of, Draw(self.of.seed, number)
        queue = self.queues[draw.worker(of.workers) if of.pool == "fixed" else 0]
        answers: Any = self.trace.Queue(name="answers")

        def call(name: str, items: int, ms: float, **args: Any) -> None:
            with self.trace.span(f"call {name}", kind="remote", items=items, **args):
                flow = self.trace.flow.sent("call")
                queue.put((name, items, flow, ms, answers))
                self.trace.flow.received("answer", answers.get())

        def cost(step: str, at: int, items: int) -> float:
            return draw(f"{step} call", at, of.call_ms) + sum(
                draw(f"{step} item", at * items + n, of.item_ms) for n in range(items)
            )

        plan: list[Callable[[], None]] = [
            functools.partial(call, "update", items, cost("update", at, items), row=at)
            for at, items in enumerate(batches(of.updates, of.coalesce))
        ]
        plugs = [cost("plug", at, of.plug_items) for at in range(of.plugs)]
        reports = [cost("report", at, 1) for at in range(of.reports)]
        self.begin.wait()
        start = time.monotonic_ns()
        with self.trace.job("boot", number=number):
            with self.step("prepare"):
                self.pause(draw("prepare", 0, of.prepare_ms))
            with self.step("claim"), self.have("resource") as scale:
                self.pause(draw("claim", 0, of.claim_ms), scale, "resource")
                with self.step("audit") as wanted:
                    if wanted and of.audit_ms:
                        self.pause(draw("audit", 0, of.audit_ms), scale, "resource")
                for update in plan:
                    update()
            with self.step("plug"):
                for ms in plugs:
                    call("plug", of.plug_items, ms)
            with self.step("spawn"):
                for at in range(of.spawns):
                    with self.have("hypervisor") as scale:
                        self.pause(draw("spawn", at, of.spawn_ms), scale, "hypervisor")
                    self.pause(draw("gap", at, of.spawn_ms))
            with self.step("report"):
                for ms in reports:
                    call("report", 1, ms, state="BUILD")
        self.times[number] = (start, time.monotonic_ns())

    def run(self) -> dict[str, Any]:
        for _ in range(20):
            self.pause(0.2)
        self.usual_lateness_s = statistics.median(self.late) / 1e9 if self.late else 0.0
        self.late.clear()
        self.slept = 0
        threads = [
            threading.Thread(
                target=self.work, args=(self.queues[at % len(self.queues)],), name=f"worker {at}"
            )
            for at in range(self.of.workers)
        ]
        jobs = [threading.Thread(target=self.job, args=(n,), name=f"boot {n}") for n in range(self.of.jobs)]
        for thread in [*threads, *jobs]:
            thread.start()
        time.sleep(0.1)  # all of them wait for it
        self.begin.set()
        for thread in jobs:
            thread.join()
        for at in range(self.of.workers):
            self.queues[at % len(self.queues)].put(None)
        for thread in threads:
            thread.join()
        return {
            "started": [self.times[n][0] for n in range(self.of.jobs)],
            "ended": [self.times[n][1] for n in range(self.of.jobs)],
            "waited": {k: sum(b - a for a, b, *_ in rows) for k, rows in self.asked.items()},
            "held": {k: sum(c - b for _, b, c, _ in rows) for k, rows in self.asked.items()},
            **self.bounds(),
            "served": self.served,
            "lateness": int(statistics.median(self.late)) if self.late else 0,
            "latest": max(self.late, default=0),
            "late": self.excess() / self.slept if self.slept else 0.0,
            "own": {name: sum(lasted) for name, lasted in self.own.items()},
        }

    def excess(self) -> float:
        """ns by which sleeps were later than the median one, together."""
        usual = statistics.median(self.late)
        return sum(max(0.0, late - usual) for late in self.late)

    def bounds(self) -> dict[str, dict[str, int]]:
        """A thread that has got a lock may be without the GIL for a while: it looks at the clock when it has that too.
        By when the holder before let go, waits are no shorter than this, and holds no longer."""
        least, most = dict.fromkeys(self.asked, 0), dict.fromkeys(self.asked, 0)
        for name, rows in self.asked.items():
            free = 0
            for asked, _, left, gone in sorted(rows, key=lambda row: row[1]):
                least[name] += max(0, free - asked)
                most[name] += gone - max(free, asked)
                free = left
        return {"waited_least": least, "held_most": most}


class Draw:
    """Durations of one job: the same step has the same, whatever else the job does."""

    def __init__(self, seed: int, job: int) -> None:
        self._of = f"{seed}/{job}"

    def __call__(self, step: str, at: int, mean: float) -> float:
        return mean * random.Random(f"{self._of}/{step}/{at}").uniform(1 - SPREAD, 1 + SPREAD)

    def worker(self, workers: int) -> int:
        return zlib.crc32(self._of.encode()) % workers


def batches(items: int, size: int) -> list[int]:
    """
    >>> batches(8, 8), batches(5, 2), batches(0, 1)
    ([8], [2, 2, 1], [])
    """
    return [min(size, items - at) for at in range(0, items, size)]


def main() -> None:
    from contend import trace

    parameters = Parameters(**json.loads(sys.argv[2]))
    if parameters.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    if parameters.green:
        import eventlet

        eventlet.monkey_patch()
        json.dump({**Storm(parameters).run(), "lost": 0}, sys.stdout)
        print()
        return
    trace.start(sys.argv[1], clock="monotonic", overflow="block", cpu_times=True, run_delay=True, gil=True)
    told = Storm(parameters).run()
    told["lost"] = trace.stop().lost
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
