"""What large runs cost to look at: CPU, wall time, the most memory, and the bytes of the page.

    python bench/pages.py [--trials 20000 100000] [--runs 2000] [--at DIR] [--write docs/results/pages]

`report`, `sql` and `run --resume` over made-up runs of so many trials, each in a process of its own, and the first page of
`contend serve` over so many small runs: without an index, with the one that the first wrote, and once more in the same
process. A user's first report bundles the programs of its page, and keeps them for those to come. `run --resume` is of a
run whose blocks are all done: it reads, makes the plan again, measures nothing, and ends with the report. --at keeps the
runs, to be measured again. --write keeps the figures, with the machine and how busy it was: wall times are worth something
on a quiet one only.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


from results.files import save_at
from results.record import recording
from support.made_big import big_run, small_runs

CONTEND = [sys.executable, "-m", "contend"]
COUNT = "select count(*), median(value) from metrics where name = 'rate'"


@dataclass(frozen=True)
class Figures:
    """What one verb or one page took. page_bytes: of what it wrote or sent; None for nothing."""

    what: str
    cpu_s: float
    wall_s: float
    peak_mib: float
    page_bytes: int | None = None
    exit: int = 0

    def line(self) -> str:
        page = f"{self.page_bytes / 2**20:.2f}" if self.page_bytes is not None else ""
        return f"{self.what:<44} {self.cpu_s:7.2f} {self.wall_s:7.2f} {self.peak_mib:6.0f} {page:>8}"


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="*", default=[20_000, 100_000])
    parser.add_argument("--runs", type=int, default=2_000, help="small ones, for serve; 0: none")
    parser.add_argument("--at", type=Path, metavar="DIR", help="make the runs here, and keep them")
    parser.add_argument("--write", type=Path, metavar="PATH", help="without suffix, for .md and .json")
    asked = parser.parse_args()
    found: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="contend-pages-") as home:
        place = (asked.at or Path(home)).absolute()
        env = os.environ | {"XDG_STATE_HOME": f"{home}/state", "XDG_CACHE_HOME": f"{home}/cache"}
        for trials in asked.trials:
            make_run(place, trials)
        if asked.runs and not (place / f"runs-{asked.runs}").exists():
            small_runs(place / f"runs-{asked.runs}", asked.runs)
        print(f"{'':<44} {'CPU s':>7} {'wall s':>7} {'MiB':>6} {'page MiB':>8}")
        for trials in asked.trials:
            for one in measure_run(place, trials, env):
                print(one.line(), flush=True)
                found.append(one)
        if asked.runs:
            for one in measure_serve(place / f"runs-{asked.runs}", asked.runs, env):
                print(one.line(), flush=True)
                found.append(one)
    if asked.write:
        save_at(asked.write, {"figures": [asdict(one) for one in found]})


def _path(place: Path, trials: int) -> Path:
    return place / f"trials-{trials}-20260101-000000"


def make_run(place: Path, trials: int) -> None:
    if not _path(place, trials).exists():
        big_run(place, trials, name=f"trials-{trials}")


def measure_run(place: Path, trials: int, env: dict[str, str]) -> Iterator[Figures]:
    shutil.rmtree(Path(env["XDG_CACHE_HOME"]), ignore_errors=True)
    run = _path(place, trials)
    yield tell(f"sql count(*) of {trials}", [*CONTEND, "sql", str(run), COUNT], env)
    for which in ("first", "next"):
        yield tell(f"{which} report of {trials}", [*CONTEND, "report", str(run)], env, run / "report.html")
    yield tell(f"run --resume of {trials}", [*CONTEND, "run", "--resume", str(run)], env, run / "report.html")


def tell(what: str, argv: list[str], env: dict[str, str], page: Path | None = None) -> Figures:
    """Run it to its end; what it took is its own, and its children's that it waited for."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        print(f"  exit {process.returncode}: {said[-500:]}")
    return Figures(
        what,
        used.ru_utime + used.ru_stime,
        wall,
        used.ru_maxrss / 1024,
        page.stat().st_size if page is not None and page.exists() else None,
        process.returncode,
    )


def measure_serve(place: Path, runs: int, env: dict[str, str]) -> Iterator[Figures]:
    for what in ("no index", "with the index kept"):
        argv = [*CONTEND, "serve", "--runs", str(place), "--listen", "127.0.0.1:0", "--json"]
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            url = urlsplit(json.loads(server.stdout.readline())["data"]["url"])
            for which in ("first page", "second page"):
                began, before = time.perf_counter(), used_s(server.pid)
                peer = http.client.HTTPConnection(url.hostname or "", url.port, timeout=300)
                peer.request("GET", "/")
                size = len(peer.getresponse().read())
                cpu, wall = used_s(server.pid) - before, time.perf_counter() - began
                yield Figures(f"{which} of {runs} runs, {what}", cpu, wall, peak_mib(server.pid), size)
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
