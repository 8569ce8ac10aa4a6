"""The driver: sends the boots, and stamps when each was due, sent and answered (CLOCK_MONOTONIC, ns)."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from . import rpc
from .options import Storm


class Driver:
    """Sends each boot from a thread of its own, as many clients would."""

    def __init__(self, options: Storm, clients: list[Any]) -> None:
        self._options, self._clients = options, clients
        self._ready = threading.Barrier(options.jobs + 1)
        self._begin_ns = 0
        self.boots: list[dict[str, Any]] = [{} for _ in range(options.jobs)]

    def storm(self) -> None:
        """Send all boots and wait until each was answered or has failed."""
        threads = [
            threading.Thread(target=self._boot, args=(number,), name=f"client-{number}")
            for number in range(self._options.jobs)
        ]
        for thread in threads:
            thread.start()
        self._begin_ns = time.monotonic_ns() + 20_000_000
        self._ready.wait()
        for thread in threads:
            thread.join()

    def _boot(self, number: int) -> None:
        self._ready.wait()
        options = self._options
        due_ns = self._begin_ns + (round(number / options.rate * 1e9) if options.rate else 0)
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        instance, error = f"instance-{number}", ""
        sent_ns = time.monotonic_ns()
        try:
            state = self._clients[number % len(self._clients)].call({}, "boot", instance=instance)
        except Exception as failure:  # noqa: BLE001 - whatever the service or the broker did is this boot's result
            state, error = "ERROR", f"{type(failure).__name__}: {failure}"
        self.boots[number] = {
            "instance": instance,
            "state": state,
            "error": error,
            "due_ns": due_ns,
            "sent_ns": sent_ns,
            "answered_ns": time.monotonic_ns(),
        }


def host_cpu() -> tuple[int, int]:
    """Read the host's CPU time so far, in ticks: busy, and all (proc(5), /proc/stat; guests are in user already)."""
    ticks = [
        int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    ]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def run(options: Storm, clients: list[Any]) -> dict[str, Any]:
    """Run one storm: its boots, and the busy share of the host's CPUs meanwhile."""
    driver = Driver(options, clients[: options.computes])
    before = host_cpu()
    driver.storm()
    busy, all_ = (after - then for after, then in zip(host_cpu(), before, strict=True))
    return {"boots": driver.boots, "host_cpu_share": busy / all_ if all_ else 0.0}


def main(url: str, exchange: str, options: Storm) -> int:
    """Run a storm for each line of options on standard input, and print a line of JSON for each."""
    transport = rpc.connect(url, exchange)
    conductor = rpc.client(transport, rpc.target(exchange, "conductor", "conductor"))
    computes = [
        rpc.client(transport, rpc.target(exchange, "compute", f"host-{number}"))
        for number in range(options.computes)
    ]
    now = options
    for line in sys.stdin:
        wanted = Storm.from_json(line)
        if now is options:
            rpc.warm(computes)
        if wanted != now:
            for service in (conductor, *computes):
                service.call({}, "configure", options=line)
        now = wanted
        print(json.dumps(run(wanted, computes)), flush=True)
    transport.cleanup()
    return 0
