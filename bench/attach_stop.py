"""How long does a process stand still while it is attached to?

    python bench/attach_stop.py [--targets 25] [--python PROGRAM]... [--probe PROGRAM]...

Under a minute for each Python on an idle machine. Each target is attached to four times: the first maps memory in it.
With several `--probe`, such as builds of two commits, they take turns; printed are quartiles in microseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from contend.probes.client import installed

CODES = {
    "busy": "print('ready', flush=True)\nwhile True:\n for _ in range(1000): pass",
    "idle": "import threading, time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)",
}
ATTACHES = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", type=int, default=25)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--probe", action="append", default=[])
    given = parser.parse_args()
    probes = given.probe or [str(installed())]
    print("python   process  attach   quartiles, µs                probe")
    for python in given.python or [sys.executable]:
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        found: dict[tuple[str, str, str], list[float]] = {}
        for _ in range(given.targets):
            for mode, code in CODES.items():
                for probe in probes:
                    for number, stopped_us in enumerate(stops(python, code, probe)):
                        when = "first" if number == 0 else "later"
                        found.setdefault((mode, when, probe), []).append(stopped_us)
        for (mode, when, probe), all_us in sorted(found.items()):
            quartiles = "  ".join(f"{value:8.1f}" for value in statistics.quantiles(all_us, n=4))
            print(f"{version:8} {mode:8} {when:6} {quartiles}   {probe}")


def stops(python: str, code: str, probe: str) -> list[float]:
    """Microseconds of each attach to one target."""
    with subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            order = json.dumps({"pid": child.pid, "script": "pass"})
            found = []
            for _ in range(ATTACHES):
                time.sleep(0.01)
                done = subprocess.run([probe, "inject", order], stdout=subprocess.PIPE, check=True)
                found.append(json.loads(done.stdout)["stopped_ns"] / 1e3)
            return found
        finally:
            child.kill()


if __name__ == "__main__":
    main()
