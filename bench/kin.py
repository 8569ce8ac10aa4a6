"""What it costs to know a run's processes where there are no control groups (`contend.platforms.kin`).

    python bench/kin.py [--rounds 20] [--starts 50] [--beside 0 100 1000]

A process is started, waited for and put behind us as a platform does it, with the reaper and its record and without, in
turn; other descendants (`--beside`) sleep meanwhile. Printed are medians of this process's CPU time, all its threads and the
kernel's part of starting and reaping included, per process; the ratio with its 95 % interval over rounds; and the CPU time
that the watching thread takes of each second in which nothing is started. CPU times, so that others on the host count
little.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from contend.platforms.base import Command
from contend.platforms.kin import Kin
from contend.platforms.processes import Confines, launch
from contend.stats.signed_rank import intervals


def started(count: int, tell: Callable[[int], None]) -> float:
    """CPU seconds of this process to start and reap one; `tell` is called with the pid of each."""
    null = Path(os.devnull)
    command = Command(("true",), Path("/"), null, null)
    began = time.process_time()
    for _ in range(count):
        process = launch(command, Confines(), {})
        tell(process.pid)
        process.wait()
    return (time.process_time() - began) / count


@contextlib.contextmanager
def sleepers(count: int) -> Iterator[None]:
    """So many descendants that do nothing."""
    line = f"i=0; while [ $i -lt {count} ]; do sleep 3600 & i=$((i+1)); done; wait"
    with subprocess.Popen(["sh", "-c", line], start_new_session=True) as parent:
        try:
            time.sleep(0.2 + count / 500)
            yield
        finally:
            os.killpg(parent.pid, 9)


def idle(seconds: float) -> float:
    """CPU seconds that this process takes of each second in which it does nothing."""
    began, wall = time.process_time(), time.monotonic()
    time.sleep(seconds)
    return (time.process_time() - began) / (time.monotonic() - wall)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--beside", type=int, nargs="+", default=[0, 100, 1000])
    given = parser.parse_args()
    print("beside  plain us  kin us  kin / plain [95 %]         watching, share of a CPU")
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name
        for beside in given.beside:
            with sleepers(beside):
                plain, kept = [], []
                for _ in range(given.rounds):
                    plain.append(started(given.starts, lambda pid: None))
                    kin = Kin("bench-kin")
                    try:
                        kept.append(started(given.starts, kin.waits_for))
                    finally:
                        kin.close()
                kin = Kin("bench-kin")
                try:
                    idle(1.0)  # until it has found its pace
                    share = idle(3.0)
                finally:
                    kin.close()
            logs = np.array([[math.log(b / a) for a, b in zip(plain, kept, strict=True)]])
            value, low, high = (math.exp(x[0]) for x in intervals(logs))
            print(
                f"{beside:6d} {statistics.median(plain) * 1e6:9.0f} {statistics.median(kept) * 1e6:7.0f}"
                f"  {value:6.2f} [{low:.2f}, {high:.2f}] {share:24.2%}"
            )


if __name__ == "__main__":
    main()
