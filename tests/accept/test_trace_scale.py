"""A million tasks of asyncio and ten thousand greenlets at once: is anything lost, out of order, or kept in memory?

Writes docs/results/trace-scale.*. About two minutes.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from contend import _native
from results.files import save
from support.prerequisites import need

pytestmark = pytest.mark.accept

TASKS = """
    import asyncio, json, resource, sys

    async def work(number):
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def main():
        for _ in range(0, int(sys.argv[1]), 1000):
            await asyncio.gather(*(work(number) for number in range(1000)))

    asyncio.run(main())
"""
GREENLETS = """
    import json, resource, sys
    import {library}
    {patch}
    import time

    def work(number):
        time.sleep(0.01)
        time.sleep(0.01)

    started = [{library}.spawn(work, number) for number in range(int(sys.argv[1]))]
    for each in started:
        each.{wait}()
"""
TELLS = """
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"rss_kb": int(peak.split()[1]), "cpu_s": used.ru_utime + used.ru_stime}))
"""
HUNT = """
    import atexit
    from pathlib import Path
    from contend.cli import main

    def peak():
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        Path("peak").write_text(peak.split()[1])

    atexit.register(peak)
    main()
"""
CASES = {
    "tasks of asyncio": (1_000_000, TASKS, "asyncio"),
    "greenlets of eventlet": (
        10_000,
        GREENLETS.format(library="eventlet", patch="eventlet.monkey_patch()", wait="wait"),
        "eventlet",
    ),
    "greenlets of gevent": (
        10_000,
        GREENLETS.format(
            library="gevent", patch="from gevent import monkey; monkey.patch_all()", wait="join"
        ),
        "gevent",
    ),
}
STEPS = 3
"""Of each task or greenlet: from its begin, and from each of its two sleeps."""
MEMORY_KB = 64 * 1024
HUNT_KB = 1_500_000
WHOLE = ("events", "processes", "tracks", "passed_over")
"""What a summary tells that is no fault."""


@pytest.mark.parametrize("kind", CASES)
def test_nothing_is_lost_or_kept(kind: str, tmp_path: Path) -> None:
    count, program, library = CASES[kind]
    need(importlib.util.find_spec(library), f"{library} is not installed: pip install {library}")
    (tmp_path / "program.py").write_text(textwrap.dedent(program) + textwrap.dedent(TELLS))
    plain = told(tmp_path, [sys.executable, "program.py", str(count)])
    contend = [sys.executable, "-m", "contend"]
    traced = told(tmp_path, [*contend, "trace", "-o", "t", "--", sys.executable, "program.py", str(count)])
    summary = _native.ctrace_summary([str(tmp_path / "t")])["told"]
    faults = {key: number for key, number in summary.items() if key not in WHOLE and number}
    hunt_kb = peak_of_hunt(tmp_path)
    row = {
        "kind": kind,
        "count": count,
        "events": summary["events"],
        "tracks": summary["tracks"],
        "faults": faults,
        "bytes": sum(file.stat().st_size for file in (tmp_path / "t").rglob("*") if file.is_file()),
        "rss_kb": [plain["rss_kb"], traced["rss_kb"]],
        "cpu_s": [plain["cpu_s"], traced["cpu_s"]],
        "hunt_kb": hunt_kb,
    }
    ROWS.append(row)
    if len(ROWS) == len(CASES):
        save("trace-scale", {"rows": ROWS})
    assert not faults and not summary["passed_over"], summary
    assert summary["tracks"] >= count
    assert summary["events"] >= STEPS * count
    assert traced["rss_kb"] - plain["rss_kb"] < MEMORY_KB, row
    assert hunt_kb < HUNT_KB, row


ROWS: list[dict[str, Any]] = []


def told(folder: Path, command: list[str]) -> dict[str, Any]:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=True)
    line = next(line for line in ended.stdout.splitlines() if line.startswith("{"))
    answer: dict[str, Any] = json.loads(line)
    return answer


def peak_of_hunt(folder: Path) -> int:
    """Most memory of a hunt in the trace there, kB; by itself, since what a process had before it became another one
    counts in `ru_maxrss`."""
    command = [sys.executable, "-c", textwrap.dedent(HUNT), "hunt", "t", "--json"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=True)
    return int((folder / "peak").read_text())
