"""The storm of `toy_storm` as tasks of one asyncio loop: jobs, locks, queues and workers that take turns on one thread.

The same parameters and draws. What is computed (`busy`) keeps the loop from all others, as it does in a service.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.toy_storm import MS, Draw, Parameters, Truth, batches


def storm(
    directory: Path, parameters: Parameters | None = None, *, timeout: float = 120, **changed: Any
) -> Truth:
    """As `toy_storm.storm`; recorded by `contend trace`, which is what reaches asyncio's locks and queues."""
    of = dataclasses.replace(parameters or Parameters(), **changed)
    trace = [
        sys.executable,
        "-c",
        "from contend.cli import main; main()",
        "trace",
        "-o",
        str(directory),
        "--",
    ]
    done = subprocess.run(
        [*trace, sys.executable, "-m", "support.toy_tasks", json.dumps(dataclasses.asdict(of))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])
    nothing: dict[str, int] = {}
    started, ended = tuple(told["started"]), tuple(told["ended"])
    return Truth(
        of, started, ended, waited=nothing, held=nothing, waited_least=nothing, held_most=nothing, served=(),
        lateness=told["lateness"], latest=told["latest"], own=nothing,
    )  # fmt: skip


class Tasks:
    """In the process that is traced."""

    def __init__(self, of: Parameters) -> None:
        from contend import trace

        self.of, self.trace = of, trace
        resource, hypervisor = asyncio.Lock(), asyncio.Lock()
        self.locks = {"resource": resource, "hypervisor": hypervisor}
        self.late: list[int] = []
        self.times: dict[int, tuple[int, int]] = {}
        self.begin = asyncio.Event()
        self.queues: list[asyncio.Queue[Any]] = []
        for _ in range(1 if of.pool == "shared" else of.workers):
            pool: asyncio.Queue[Any] = asyncio.Queue()
            self.queues.append(pool)

    async def pause(self, ms: float) -> None:
        length = ms * self.of.scale
        if self.of.busy:
            end = time.thread_time_ns() + self.of.busy * length * MS
            while time.thread_time_ns() < end:
                pass
        if self.of.busy < 1:
            began = time.monotonic_ns()
            await asyncio.sleep((1 - self.of.busy) * length / 1000)
            self.late.append(time.monotonic_ns() - began - int((1 - self.of.busy) * length * MS))

    async def work(self, queue: asyncio.Queue[Any]) -> None:
        while (item := await queue.get()) is not None:
            name, items, flow, ms, answers = item
            with self.trace.span(f"serve {name}", items=items):
                self.trace.flow.received("call", flow)
                await self.pause(ms)
                answers.put_nowait(self.trace.flow.sent("answer"))

    async def job(self, number: int) -> None:
        of, draw = self.of, Draw(self.of.seed, number)
        queue = self.queues[draw.worker(of.workers) if of.pool == "fixed" else 0]
        answers: asyncio.Queue[int] = asyncio.Queue()

        async def call(name: str, items: int, at: int) -> None:
            ms = draw(f"{name} call", at, of.call_ms)
            ms += sum(draw(f"{name} item", at * items + n, of.item_ms) for n in range(items))
            with self.trace.span(f"call {name}", kind="remote", items=items):
                flow = self.trace.flow.sent("call")
                queue.put_nowait((name, items, flow, ms, answers))
                self.trace.flow.received("answer", await answers.get())

        await self.begin.wait()
        start = time.monotonic_ns()
        with self.trace.job("boot", number=number):
            await self.pause(draw("prepare", 0, of.prepare_ms))
            with self.trace.span("claim"):
                async with self.locks["resource"]:
                    part = of.hold.get("resource", 1.0)
                    await self.pause(part * draw("claim", 0, of.claim_ms))
                    if "audit" not in of.without:
                        with self.trace.span("audit"):
                            await self.pause(part * draw("audit", 0, of.audit_ms))
                    for at, items in enumerate(batches(of.updates, of.coalesce)):
                        await call("update", items, at)
            for at in range(of.plugs):
                await call("plug", of.plug_items, at)
            with self.trace.span("spawn"):
                for at in range(of.spawns):
                    async with self.locks["hypervisor"]:
                        await self.pause(of.hold.get("hypervisor", 1.0) * draw("spawn", at, of.spawn_ms))
                    await self.pause(draw("gap", at, of.spawn_ms))
        self.times[number] = (start, time.monotonic_ns())

    async def run(self) -> dict[str, Any]:
        of = self.of
        work = [self.work(self.queues[at % len(self.queues)]) for at in range(of.workers)]
        workers = [asyncio.create_task(each, name=f"worker {at}") for at, each in enumerate(work)]
        jobs = [asyncio.create_task(self.job(n), name=f"boot {n}") for n in range(of.jobs)]
        await asyncio.sleep(0.1)
        self.begin.set()
        await asyncio.gather(*jobs)
        for at in range(of.workers):
            self.queues[at % len(self.queues)].put_nowait(None)
        await asyncio.gather(*workers)
        return {
            "started": [self.times[n][0] for n in range(of.jobs)],
            "ended": [self.times[n][1] for n in range(of.jobs)],
            "lateness": int(statistics.median(self.late)) if self.late else 0,
            "latest": max(self.late, default=0),
        }


async def main() -> None:
    parameters = Parameters(**json.loads(sys.argv[1]))
    if parameters.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    print(json.dumps(await Tasks(parameters).run()))


if __name__ == "__main__":
    asyncio.run(main())
