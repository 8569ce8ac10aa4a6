"""What the largest inputs cost: makes them, runs the verbs over them, prints seconds, CPU and memory.

    python bench/limits.py [--rows 4000000] [--mib 100] [--json FILE]

Figures of another machine say nothing here: run it alone on a quiet host.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CONTEND = [sys.executable, "-m", "contend"]


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


def measured(words: list[str], home: Path) -> dict[str, object]:
    began = time.monotonic()
    environment = {**os.environ, "XDG_STATE_HOME": str(home / "state")}
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
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cases: list[tuple[str, Callable[[Path], None], list[str]]] = [
        ("pairs.csv", lambda path: pairs(path, given.rows), ["stats"]),
        ("blocks.csv", lambda path: pairs(path, given.rows, 4), ["stats"]),
        ("unpaired.csv", lambda path: unpaired(path, given.rows), ["stats"]),
        ("jmeter.jtl", lambda path: jmeter(path, given.mib), ["import"]),
        ("k6.csv", lambda path: k6(path, given.mib), ["import"]),
        ("rally.json", lambda path: rally(path, given.mib), ["import"]),
    ]
    found = []
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        for name, make, verb in cases:
            make(home / name)
            row = {"bytes": (home / name).stat().st_size, **measured([*verb, name], home)}
            (home / name).unlink()
            found.append(row)
            print(json.dumps(row), flush=True)
    if given.json:
        given.json.write_text(
            json.dumps({"load": os.getloadavg(), "rows": found}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
