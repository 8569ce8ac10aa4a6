"""Boot storms over a broker: starts services, loads them by the driver, ends them, and returns one document a storm."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import secrets
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from contend.errors import CannotHonour, HostFailed
from contend.workloads.drivers.rpc.options import URL
from contend.workloads.drivers.rpc.processes import Starter
from contend.workloads.drivers.storm_lab.options import Storm

_NEEDED = ("oslo_messaging", "oslo_concurrency")
_END_S = 15.0
SCHEMA_VERSION = 1


def check() -> None:
    """Check that this Python has the libraries that the services need. Raises CannotHonour."""
    absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise CannotHonour(
            f"the storm laboratory needs {' and '.join(absent)}, not found in {sys.prefix}",
            hint="pip install 'contend[rpc]'",
        )


def summary(options: Storm, document: dict[str, Any]) -> dict[str, Any]:
    """Summary of a storm for users and metrics; in seconds, the boots' own stamps beside it in ns."""
    boots = document["boots"]
    times = sorted((boot["answered_ns"] - boot["due_ns"]) / 1e9 for boot in boots)
    makespan_ns = max(boot["answered_ns"] for boot in boots) - min(boot["due_ns"] for boot in boots)
    p90 = statistics.quantiles(times, n=10, method="inclusive")[-1] if len(times) > 1 else times[0]
    return {
        "schema_version": SCHEMA_VERSION,
        "options": dataclasses.asdict(options),
        "clock": "CLOCK_MONOTONIC",
        "jobs": len(boots),
        "median_s": statistics.median(times),
        "p90_s": p90,
        "max_s": times[-1],
        "makespan_s": makespan_ns / 1e9,
        "host_cpu_share": document["host_cpu_share"],
        "boots": boots,
    }


class Services:
    """The processes of storms, each its own; they end with the process that made them.

    As many compute services as `options` say, and so no more in any storm. of: the bed that they belong to. Times of boots
    count from when each was due. Raises CannotHonour, HostFailed.
    """

    def __init__(self, of: Starter, url: str, options: Storm) -> None:
        check()
        self._of, self._url = of, url
        self._arguments = (f"storm-{secrets.token_hex(4)}", options.to_json())
        self._running: list[tuple[str, subprocess.Popen[str]]] = []
        try:
            conductor = self._start("conductor")
            computes = [self._start("compute", f"host-{number}") for number in range(options.computes)]
            self._driver = self._start("driver")
            self._wait_until_serving(conductor)
            for compute in computes:
                _tell(compute, "go")
            for compute in computes:
                self._wait_until_serving(compute)
        except BaseException:
            self.end()
            raise

    def storm(self, options: Storm) -> dict[str, Any]:
        """Run one storm and return its document. Raises HostFailed when a boot has failed."""
        _tell(self._driver, options.to_json())
        assert self._driver.stdout is not None
        line = self._driver.stdout.readline()
        if not line:
            raise HostFailed(
                f"the driver ended with {self._driver.wait(_END_S)}",
                hint="what it said is on standard error",
            )
        document: dict[str, Any] = json.loads(line)
        failed = [boot for boot in document["boots"] if boot["error"]]
        if failed:
            raise HostFailed(
                f"{len(failed)} of {options.jobs} boots failed",
                hint=f"{failed[0]['instance']}: {failed[0]['error']}",
            )
        return summary(options, document)

    def __enter__(self) -> Services:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the services, each after the calls that it serves. Idempotent."""
        for role, process in self._running:
            if role == "driver" and process.stdin is not None:
                process.stdin.close()
            elif process.poll() is None:
                process.terminate()
        for _, process in self._running:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for _, process in self._running:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._running.clear()

    def _start(self, role: str, *more: str) -> subprocess.Popen[str]:
        package = Path(__file__).parent
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(package)]))
        # The URL holds a password: not among the arguments, which all can read.
        environment = {**os.environ, "PYTHONPATH": path, URL: self._url}
        program = str(package / "storm_lab" / "bin" / f"{role}.py")
        process = self._of.popen(
            # Its libraries warn of each other's deprecations.
            [sys.executable, "-W", "ignore", program, *self._arguments, *more],
            environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._running.append((role, process))
        return process

    def _wait_until_serving(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        if process.stdout.readline() != "serving\n":
            role = next(name for name, one in self._running if one is process)
            raise HostFailed(
                f"the {role} ended with {process.wait(_END_S)} before it served",
                hint="what it said is on standard error",
            )


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
