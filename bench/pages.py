"""What large runs cost to look at: CPU, wall time, the most memory, and the bytes of the page.

    python bench/pages.py [--trials 20000 100000] [--runs 2000] [--at DIR]

`report`, `sql` and `run --resume` over made-up runs of so many trials, each in a process of its own, and the first page of
`contend serve` over so many small runs: without an index, with the one that the first wrote, and once more in the same
process. `run --resume` is of a run whose blocks are all done: it reads, makes the plan again, prepares what trials need,
measures nothing, and ends with the report. --at keeps the runs, to be measured again.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.made_big import big_run, small_runs

CONTEND = [sys.executable, "-m", "contend"]
COUNT = "select count(*), median(value) from metrics where name = 'rate'"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="*", default=[20_000, 100_000])
    parser.add_argument("--runs", type=int, default=2_000, help="small ones, for serve; 0: none")
    parser.add_argument("--at", type=Path, metavar="DIR", help="make the runs here, and keep them")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="contend-pages-") as home:
        place = (asked.at or Path(home)).absolute()
        env = os.environ | {"XDG_STATE_HOME": f"{home}/state", "XDG_CACHE_HOME": f"{home}/cache"}
        print(f"{'':<44} {'CPU s':>7} {'wall s':>7} {'MiB':>6} {'page MiB':>8}")
        for trials in asked.trials:
            measure_run(place, trials, env)
        if asked.runs:
            measure_serve(place / f"runs-{asked.runs}", asked.runs, env)


def measure_run(place: Path, trials: int, env: dict[str, str]) -> None:
    name = f"trials-{trials}"
    run = place / f"{name}-20260101-000000"
    if not run.exists():
        big_run(place, trials, name=name)
    tell(f"sql count(*) of {trials}", [*CONTEND, "sql", str(run), COUNT], env)
    tell(f"report of {trials}", [*CONTEND, "report", str(run)], env, run / "report.html")
    tell(f"run --resume of {trials}", [*CONTEND, "run", "--resume", str(run)], env, run / "report.html")


def tell(what: str, argv: list[str], env: dict[str, str], page: Path | None = None) -> None:
    """Run it to its end and print what it took: its own, and its children's that it waited for."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    size = f"{page.stat().st_size / 2**20:8.2f}" if page is not None and page.exists() else ""
    cpu = used.ru_utime + used.ru_stime
    print(f"{what:<44} {cpu:7.2f} {wall:7.2f} {used.ru_maxrss / 1024:6.0f} {size}", flush=True)
    if process.returncode not in (0, 3):
        print(f"  exit {process.returncode}: {said[-500:]}")


def measure_serve(place: Path, runs: int, env: dict[str, str]) -> None:
    if not place.exists():
        small_runs(place, runs)
    for what in ("no index", "with the index kept"):
        argv = [*CONTEND, "serve", "--runs", str(place), "--listen", "127.0.0.1:0", "--json"]
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            url = urlsplit(json.loads(server.stdout.readline())["url"])
            for which in ("first page", "second page"):
                began, before = time.perf_counter(), used_s(server.pid)
                peer = http.client.HTTPConnection(url.hostname or "", url.port, timeout=300)
                peer.request("GET", "/")
                size = len(peer.getresponse().read())
                cpu, wall = used_s(server.pid) - before, time.perf_counter() - began
                told = f"{which} of {runs} runs, {what}"
                print(
                    f"{told:<44} {cpu:7.2f} {wall:7.2f} {peak_mib(server.pid):6.0f} {size / 2**20:8.2f}",
                    flush=True,
                )
            server.send_signal(signal.SIGINT)


def used_s(pid: int) -> float:
    """CPU time of a process so far, in steps of a tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
