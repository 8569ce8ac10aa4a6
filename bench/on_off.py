"""Neighbours that come and go: real programs, each in its own process group, stopped and continued at random moments."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from contend.platforms import procfs
from contend.platforms.kin import reap_orphans

LENGTHS_S = (0.3, 8.0)
"""Of a stretch of work or of rest, drawn evenly in its logarithm."""
COMPILE = "while :; do gcc -O2 -x c -c -o /dev/null {source}; done"
PACK = "while :; do xz -T1 -6 -c {data} > /dev/null; done"
NEIGHBOURS = {
    "stress-ng, integers": "stress-ng --cpu 2 --cpu-method int64 --timeout 0 --quiet",
    "stress-ng, memory": "stress-ng --stream 1 --timeout 0 --quiet",
    "stress-ng, caches": "stress-ng --cache 1 --timeout 0 --quiet",
    "stress-ng, switches": "stress-ng --switch 1 --timeout 0 --quiet",
    "stress-ng, processes": "stress-ng --fork 1 --timeout 0 --quiet",
    "fio, writes": (
        "fio --name=w --rw=randwrite --bs=64k --size=64m --time_based --runtime=1h --direct=1 --ioengine=psync"
        " --filename={folder}/written --output=/dev/null"
    ),
    "ffmpeg": "ffmpeg -nostdin -v error -re -f lavfi -i testsrc2=size=640x360:rate=60 -c:v libx264 -f null -",
    "sysbench, memory": "sysbench memory --memory-total-size=100T --time=0 run",
    "gcc": COMPILE,
    "xz": PACK,
}


@contextlib.contextmanager
def beside(name: str, folder: Path, seed: int) -> Iterator[None]:
    """Run a neighbour for as long as the block does: it works and rests for times drawn by chance."""
    source, data = folder / "source.c", folder / "data"
    if not source.exists():
        source.write_text(
            "\n".join(
                f"int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {n}; return s; }}"
                for n in range(400)
            ),
            encoding="ascii",
        )
        data.write_bytes(random.Random(1).randbytes(1 << 20) * 4)
    command = NEIGHBOURS[name].format(folder=folder, source=source, data=data)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, process_group=0,
        preexec_fn=partial(reap_orphans, True),  # noqa: PLW1509 - prctl(2) alone: all that it forks stays below it
    )  # fmt: skip
    ended = threading.Event()

    def turn() -> None:
        chance = random.Random(seed)
        low, high = LENGTHS_S
        is_on = chance.random() < 0.5
        while not ended.wait(low * (high / low) ** chance.random()):
            is_on = not is_on
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT if is_on else signal.SIGSTOP)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        went = process.poll()
        if went is None:
            _end_below(process.pid)
        for number in (signal.SIGKILL, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        process.wait()
    if went is not None:
        raise RuntimeError(f"{name} ended by itself with {went}")


def _end_below(pid: int) -> None:
    """End what a neighbour has forked; some of it leads sessions, and was stopped as it left the neighbour's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGSTOP)  # it forks nothing more, and is there for its orphans
    procfs.kill_until_gone(lambda: procfs.descendants(pid))
