"""A neighbour that comes and goes: on and off for random times on one CPU, until its parent ends.

Dwell times are geometric with mean `--dwell` seconds. While on it takes `--duty` of the CPU in periods of
`--period` seconds. Make that short against what is measured: a run of 40 ms meets five or six turns of a 10 ms period,
and which of the two is most of the difference between a run and one 5 % longer; the ratio is then not that of the work.
"""

from __future__ import annotations

import argparse
import os
import random
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", type=int, required=True)
    parser.add_argument("--dwell", type=float, default=1.0)
    parser.add_argument("--duty", type=float, default=0.2)
    parser.add_argument("--period", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=float, default=3600.0, help="seconds after which it ends in any case")
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.cpu})
    rng, parent = random.Random(given.seed), os.getppid()
    end, on = time.monotonic() + given.most, False
    while time.monotonic() < end and os.getppid() == parent:
        until = time.monotonic() + rng.expovariate(1 / given.dwell)
        while time.monotonic() < until:
            if on:
                spin = time.monotonic() + given.period * given.duty
                while time.monotonic() < spin:
                    pass
                time.sleep(given.period * (1 - given.duty))
            else:
                time.sleep(min(0.05, max(0.0, until - time.monotonic())))
        on = not on


if __name__ == "__main__":
    main()
