"""Small victims, one a resource, that tell how hard a neighbour presses.

Each does one thing over and over, counts it by time, and uses little of anything else: cpu hashes what fits into the first
cache; memory copies what does not fit into the last; disk reads blocks at random past the page cache; network sends over
loopback to itself; lock passes a byte between two processes, which takes two switches and two wake-ups each time.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contend.errors import HostFailed
from contend.workloads.generators import verbs
from contend.workloads.parameters_file import Placeholders

COPIED = 64 * 2**20
BLOCK = 4096
FILE = 64 * 2**20
MESSAGE = 16 * 1024
DATA = "data"  # in {work}: the file that the disk probe reads
BATCH_S = 0.002  # between two looks at the clock

Step = Callable[[], object]


@contextmanager
def cpu(_: Path) -> Iterator[Step]:
    data = bytes(BLOCK)
    yield lambda: hashlib.sha256(data).digest()


@contextmanager
def memory(_: Path) -> Iterator[Step]:
    part = 2**20
    source, target = memoryview(bytearray(os.urandom(part) * (COPIED // part))), memoryview(bytearray(COPIED))
    at = 0

    def step() -> None:
        nonlocal at
        target[at : at + part] = source[at : at + part]
        at = (at + part) % COPIED

    yield step


@contextmanager
def disk(data: Path) -> Iterator[Step]:
    buffer = mmap.mmap(-1, BLOCK)  # of whole pages, as O_DIRECT wants it
    file = os.open(data, os.O_RDONLY | os.O_DIRECT)
    rng = random.Random(1)
    blocks = os.fstat(file).st_size // BLOCK
    try:
        yield lambda: os.preadv(file, [buffer], BLOCK * rng.randrange(blocks))
    finally:
        os.close(file)


@contextmanager
def network(_: Path) -> Iterator[Step]:
    data, into = bytes(MESSAGE), bytearray(MESSAGE)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _who = listening.accept()
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def step() -> None:
        near.sendall(data)
        left = MESSAGE
        while left:
            left -= far.recv_into(into, left)

    with near, far:
        yield step


@contextmanager
def lock(_: Path) -> Iterator[Step]:
    down_read, down_write = os.pipe()
    up_read, up_write = os.pipe()
    other = os.fork()
    if other == 0:
        os.close(down_write)
        while byte := os.read(down_read, 1):
            os.write(up_write, byte)
        os._exit(0)
    os.close(down_read)

    def step() -> None:
        os.write(down_write, b"x")
        os.read(up_read, 1)

    try:
        yield step
    finally:
        os.close(down_write)
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


PROBES = {"cpu": cpu, "memory": memory, "disk": disk, "network": network, "lock": lock}


def prepare(data: Path) -> None:
    """Write the file that the disk probe reads, with data on the disk: a hole would be read faster."""
    with data.open("wb") as file:
        for _ in range(FILE // 2**20):
            file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())


def rate(step: Step, seconds: float) -> tuple[float, int]:
    """Repeat `step` for so many seconds: (steps a second, number of steps). The clock is read about every BATCH_S."""
    step()
    clock = time.perf_counter
    began = clock()
    step()
    batch = max(1, min(10_000, int(BATCH_S / max(clock() - began, 1e-7))))
    done, began = 0, clock()
    while (spent := clock() - began) < seconds:
        for _ in range(batch):
            step()
        done += batch
    return done / spent, done


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload pressure-probe."""

    resource: str


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.run(arguments, Parameters, {"prepare": _prepare, "run": _run, "neighbour": _neighbour})


def _prepare(given: Parameters, at: Placeholders) -> None:
    with _explained(given):
        prepare(at.work / DATA)


def _run(given: Parameters, at: Placeholders) -> None:
    with _explained(given), PROBES[given.resource](at.work / DATA) as step:
        per_s, done = rate(step, at.seconds)
    text = json.dumps({"resource": given.resource, "rate": per_s, "done": done}) + "\n"
    (at.out / "probe.json").write_text(text, encoding="utf-8")


def _neighbour(given: Parameters, at: Placeholders) -> None:
    with _explained(given), PROBES[given.resource](at.work / DATA) as step:
        rate(step, math.inf)


@contextmanager
def _explained(given: Parameters) -> Iterator[None]:
    """Turn an error of the system in the block into a HostFailed that explains it."""
    try:
        yield
    except OSError as error:
        raise HostFailed(
            f"{error.strerror}: {error.filename or given.resource}",
            hint="reading past the page cache needs a file system of a disk; --runs DIR names one",
        ) from error
