"""What the largest inputs cost: makes them, runs the verbs over them, prints seconds, CPU and memory.

    python bench/limits.py [--rows 4000000] [--mib 100] [--write docs/results/limits]

With --write the figures become FILE.json and FILE.md, with the machine, the commit and the load before and during.
Figures of another machine say nothing here: run it alone on a quiet host.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results.files import save_at
from results.pages import limits
from results.record import recording

CONTEND = [sys.executable, "-m", "contend"]
ROOT = Path(__file__).resolve().parent.parent
QUIET = 0.5  # of load a CPU, from which on seconds on the clock are those of a host that does other things
MOST_S, MOST_MB, MOST_IMPORT_MB = 10.0, 500, 250


def pairs(path: Path, rows: int, per_arm: int = 1) -> None:
    """Blocks of two cells in random order, `per_arm` values each, b a tenth above a."""
    drawn = random.Random(1)
    with path.open("w", encoding="ascii") as file:
        file.write("block,cell,value,order\n")
        for block in range(rows // (2 * per_arm)):
            cells = ["a", "b"] * per_arm
            drawn.shuffle(cells)
            for place, cell in enumerate(cells):
                value = drawn.lognormvariate(0.1 * (cell == "b"), 0.05)
                file.write(f"{block},{cell},{value:.6f},{block * 2 * per_arm + place}\n")


def unpaired(path: Path, rows: int) -> None:
    drawn = random.Random(2)
    with path.open("w", encoding="ascii") as file:
        file.write("cell,value\n")
        for _ in range(rows):
            file.write(f"{drawn.choice('ab')},{drawn.lognormvariate(0, 0.05):.6f}\n")


def jmeter(path: Path, mib: int) -> None:
    drawn = random.Random(3)
    with path.open("w", encoding="ascii") as file:
        file.write("timeStamp,elapsed,label,responseCode,threadName,success\n")
        at = 1_700_000_000_000
        while file.tell() < mib << 20:
            for _ in range(10_000):
                at += drawn.randrange(3)
                file.write(f"{at},{drawn.randrange(1, 900)},GET /,200,t-{drawn.randrange(50)},true\n")


def k6(path: Path, mib: int) -> None:
    drawn = random.Random(4)
    with path.open("w", encoding="ascii") as file:
        file.write("metric_name,timestamp,metric_value,scenario\n")
        at = 1_700_000_000
        while file.tell() < mib << 20:
            at += 1
            for _ in range(5_000):
                file.write(
                    f"http_reqs,{at},1,default\nhttp_req_duration,{at},{drawn.random() * 90:.3f},default\n"
                )


def rally(path: Path, mib: int) -> None:
    """One JSON document."""
    drawn = random.Random(5)
    row = '{"timestamp": %d.5, "duration": %.6f, "idle_duration": 0.0, "error": [], "atomic_actions": {"nova.boot": %.6f}}'
    rows = [row % (1_700_000_000 + n, drawn.random(), drawn.random()) for n in range((mib << 20) // 120)]
    key = '{"name": "NovaServers.boot", "kw": {"runner": {"type": "constant", "times": 1, "concurrency": 1}, "args": {}}}'
    path.write_text(f'[{{"key": {key}, "result": [{", ".join(rows)}]}}]', encoding="ascii")


def fio(path: Path, mib: int) -> None:
    """One JSON document of many jobs, each with a count for every latency there was (json+)."""
    drawn = random.Random(6)

    def latency() -> str:
        bins = ", ".join(f'"{64 * n}": {drawn.randrange(1, 999)}' for n in range(2000))
        percentiles = '"50.000000": 81000, "99.000000": 700000'
        return f'{{"N": 1000, "mean": 90000.5, "percentile": {{{percentiles}}}, "bins": {{{bins}}}}}'

    with path.open("w", encoding="ascii") as file:
        file.write('{"fio version": "fio-3.39", "timestamp_ms": 1700000000000, "jobs": [\n')
        job = 0
        while file.tell() < mib << 20:
            file.write(",\n" if job else "")
            file.write(
                f'{{"jobname": "job-{job % 50}", "error": 0, "job options": {{"bs": "4k", "rw": "randread"}}, "read": {{'
                f'"total_ios": 1000, "runtime": 10000, "iops": {drawn.random() * 9e4:.3f}, "bw_bytes": 4096000,'
                f' "clat_ns": {latency()}, "lat_ns": {latency()}}}}}'
            )
            job += 1
        file.write("\n]}\n")


def made(make: Callable[..., None], path: Path, *size: int) -> None:
    """In a process of its own: what this one grows to would count for each that it starts (wait4(2), ru_maxrss)."""
    process = multiprocessing.get_context("spawn").Process(target=make, args=(path, *size))
    process.start()
    process.join()


def measured(words: list[str], home: Path) -> dict[str, Any]:
    began = time.monotonic()
    environment = {**os.environ, "XDG_STATE_HOME": str(home / "state"), "CONTEND_RUNS": str(home / "runs")}
    with subprocess.Popen(
        [*CONTEND, *words], cwd=home, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "command": "contend " + " ".join(words),
        "exit": process.returncode,
        "wall_s": round(time.monotonic() - began, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "max_rss_mb": round(used.ru_maxrss * 1024 / 1e6),
        "load_after": round(os.getloadavg()[0], 2),
    }


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write FILE.json and FILE.md")
    given = parser.parse_args()
    cases: list[tuple[str, Callable[..., None], tuple[int, ...], list[str]]] = [
        ("pairs.csv", pairs, (given.rows,), ["stats"]),
        ("blocks.csv", pairs, (given.rows, 4), ["stats"]),
        ("unpaired.csv", unpaired, (given.rows,), ["stats"]),
        ("jmeter.jtl", jmeter, (given.mib,), ["import"]),
        ("k6.csv", k6, (given.mib,), ["import"]),
        ("rally.json", rally, (given.mib,), ["import"]),
        ("fio.json", fio, (given.mib,), ["import"]),
    ]
    most = {"stats_s": MOST_S, "stats_mb": MOST_MB, "import_mb": MOST_IMPORT_MB}
    document: dict[str, Any] = {"stats_rows": given.rows, "mib": given.mib, "most": most, "rows": []}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        for name, make, size, verb in cases:
            made(make, home / name, *size)
            row = {"bytes": (home / name).stat().st_size, **measured([*verb, name], home)}
            (home / name).unlink()
            document["rows"].append(row)
            print(json.dumps(row), flush=True)
    if given.write:
        save_at(given.write, document)
    sys.exit(any(limits.beyond(row, most) for row in document["rows"]))


if __name__ == "__main__":
    main()
