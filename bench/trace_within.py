"""What recording adds to a request, part by part, inside of one process: for machines on which others are busy too.

    python bench/trace_within.py [--server gunicorn] [--modes off no-gil on] [--starts 12] [--rounds 40]
                                                            (about 5 minutes; twice that on a busy machine)

The service of bench/trace_wsgi.py under `contend trace` and wrk. A thread of its own switches the recording from mode to
mode, in random order, for a tenth of a second each: `off` (no recording; what is patched stays so), `control` (the same
once more: what these two differ by is what the method makes up), `no-gil`, `no-gc`, `no-io` (all but that), `on`. So
layouts of memory and other programs are the same for all modes: differences of a percent can be seen on a machine with a
load of ten. What is not seen is what the patches cost while nothing is recorded: that is in bench/trace_wsgi.py alone. CPU
time and switches are the process', a request; ratios to the first mode are of starts, with 95 % intervals: what CPython's
table of types' attributes holds by chance stays the same in a start.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from contend.stats.compare import compare
from trace_wsgi import APPLICATION, PATHS, SERVERS, running, wait_until_it_answers

SWITCHER = """
served = [0]

@app.after_request
def count(response):
    served[0] += 1
    return response

def switch(modes, rounds, length_s):
    import json, os, random, resource, tempfile, time
    from contend import trace
    from contend._native import trace_collections, trace_gil, trace_io

    def look():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return served[0], time.process_time_ns() / 1000, usage.ru_nvcsw + usage.ru_nivcsw, time.monotonic()

    found = []
    for _ in range(rounds):
        row = {}
        for mode in random.sample(modes, len(modes)):
            records = mode not in ("off", "control")
            if not records:
                trace.stop()
            elif not trace.status().recording:
                trace.start(tempfile.mkdtemp(dir="."), gil=True, gc=True, io=True, blocked_after_ms=10)
            if records:
                trace_gil(mode != "no-gil")
                trace_collections(mode != "no-gc")
                trace_io(mode != "no-io")
            # A recording that has just begun learns names and touches its memory for the first time. All modes
            # wait as long: else one would be measured nearer to the switch than another.
            time.sleep(0.1)
            before = look()
            time.sleep(length_s)
            row[mode] = [after - at for at, after in zip(before, look())]
        found.append(row)
    with open("found.part", "w") as file:
        json.dump(found, file)
    os.rename("found.part", "found.json")

@app.get("/switch")
def begin():
    asked = flask.request.args
    given = asked["modes"].split(","), int(asked["rounds"]), float(asked["length_s"])
    threading.Thread(target=switch, args=given, daemon=True).start()
    return {}
"""
MODES = ("off", "control", "no-gil", "no-gc", "no-io", "on")
LENGTH_S = 0.1
Row = dict[str, list[float]]


def measured(server: str, modes: Sequence[str], rounds: int) -> list[Row]:
    """Requests, µs of CPU, switches and seconds in each mode, a row each round."""
    longest = int(rounds * len(modes) * LENGTH_S * 4) + 10
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "service.py").write_text(APPLICATION + SWITCHER)
        (place / "paths.lua").write_text(PATHS)
        with running(server, place, place / "trace") as (port, process):
            wait_until_it_answers(port, process)
            load = ["wrk", "-t1", "-c8", f"-d{longest}s", "--timeout=5s", "-s", str(place / "paths.lua")]
            wrk = subprocess.Popen([*load, f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL)
            try:
                time.sleep(2)
                asked = f"modes={','.join(modes)}&rounds={rounds}&length_s={LENGTH_S}"
                urllib.request.urlopen(f"http://127.0.0.1:{port}/switch?{asked}", timeout=10).read()
                found = place / "found.json"
                while not found.exists():
                    if wrk.poll() is not None:
                        sys.exit("error: the load ended before the measurement did: fewer --rounds")
                    time.sleep(0.2)
            finally:
                wrk.kill()
                wrk.wait()
            rows: list[Row] = json.loads(found.read_text())
    return rows


def lines(modes: Sequence[str], starts: Sequence[list[Row]]) -> Iterator[str]:
    for mode in modes:
        cells = [mode]
        for above, below in ((0, 3), (1, 0), (2, 0)):
            base, own = (
                [
                    sum(row[which][above] for row in rows) / sum(row[which][below] for row in rows)
                    for rows in starts
                ]
                for which in (modes[0], mode)
            )
            cells.append(f"{sorted(own)[len(own) // 2]:,.1f}")
            if mode != modes[0]:
                e = compare(base, own, blocks=range(len(starts)))
                cells[-1] += f" ({e.value:.4f} [{e.low:.4f}, {e.high:.4f}])"
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", choices=SERVERS, default="gunicorn")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["off", "no-gil", "on"])
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("error: wrk is not installed\n  hint: scripts/packages.sh bench")
    starts = [measured(given.server, given.modes, given.rounds) for _ in range(given.starts)]
    print(f"{given.server}, load {os.getloadavg()[0]:.1f}; ratios to `{given.modes[0]}`")
    print("| | requests a second | CPU µs a request | switches a request |\n|---|---:|---:|---:|")
    print(*lines(given.modes, starts), sep="\n")


if __name__ == "__main__":
    main()
