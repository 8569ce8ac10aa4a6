"""What a fleet costs: on a host, beside the same scenario run without it; and at the starting machine, by number of hosts.

    python bench/fleet_scale.py                     both, 100, 300 and 1,000 hosts
    python bench/fleet_scale.py --hosts 100 --seconds 30 --skip-overhead

Overhead: the same scenario by `contend run` and by `contend run --hosts` over loopback, in turns; per trial the time between
one trial's window and the next one's, and the CPU time of the worker over the run's length: of a short run mostly what it
does once, checking the scenario and handing over files. Scale: real scheduler, TLS,
coordinator and run directory; workers are real too, many in a process, and hand over rows of a real run at a stated rate
instead of running trials. Figures are of this machine, which also carries the workers.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results.files import save_at
from results.record import recording

CONTEND = str(Path(sys.executable).with_name("contend"))
HERE = Path(__file__)
TICK = os.sysconf("SC_CLK_TCK")
WORKLOAD = """\
name: tiny
run: sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 100ms
"""
SCENARIO = """\
study: compare
workload: tiny
variants: [{{name: a}}, {{name: b}}]
measure: {{target: null, blocks: {blocks}, pilot: 1, design: pairs}}
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


# Overhead on a host


def gaps_ms(run: Path) -> list[float]:
    """From the end of one trial's window to the start of the next."""
    rows = sorted(
        (json.loads(x) for x in (run / "trials.ndjson").read_text().splitlines()),
        key=lambda r: r["started_ns"],
    )
    rows = [row for row in rows if row["phase"] == "counted"]
    return [(b["started_ns"] - a["ended_ns"]) / 1e6 for a, b in itertools.pairwise(rows)]


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Mean, and t interval."""
    from contend.stats.quantiles import t_quantile

    mean, n = statistics.mean(values), len(values)
    reach = t_quantile((1 + level) / 2, n - 1) * statistics.stdev(values) / n**0.5
    return mean, mean - reach, mean + reach


def overhead(rounds: int, blocks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="contend-bench-") as place:
        home = Path(place)
        workloads = home / "config/contend/workloads"
        workloads.mkdir(parents=True)
        (workloads / "tiny.yaml").write_text(WORKLOAD)
        (home / "s.yaml").write_text(SCENARIO.format(blocks=blocks))
        env = {**os.environ, "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}

        def contend(*words: str) -> str:
            done = subprocess.run(
                [CONTEND, *words], cwd=home, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"contend {' '.join(words)}: {done.stderr}")
            return done.stdout

        contend("fleet", "start", "--by-hand", "here", "--address", "127.0.0.1")
        try:
            (join,) = home.glob("state/contend/fleets/*/join/here.json")
            worker = json.loads(contend("fleet", "join", str(join), "--background"))
            differences, shares, idle, lengths = [], [], [], []
            turns = ["alone", "fleet"]
            for number in range(rounds):
                random.shuffle(turns)
                found = {}
                for turn in turns:
                    runs = home / f"{turn}-{number}"
                    used, began = cpu_s(worker["pid"]), time.monotonic()
                    contend(
                        "run",
                        "s.yaml",
                        "--runs",
                        str(runs),
                        *(["--hosts", "here"] if turn == "fleet" else []),
                    )
                    (run,) = runs.iterdir()
                    length = time.monotonic() - began
                    share = (cpu_s(worker["pid"]) - used) / length
                    if turn == "fleet":
                        lengths.append(length)
                    (shares if turn == "fleet" else idle).append(share)
                    found[turn] = statistics.mean(gaps_ms(run))
                differences.append(found["fleet"] - found["alone"])
                print(
                    f"  round {number + 1}: {found['alone']:.1f} ms alone, {found['fleet']:.1f} ms in a fleet",
                    flush=True,
                )
        finally:
            contend("fleet", "stop")
    mean, low, high = interval(differences)
    return {
        "rounds": rounds,
        "blocks": blocks,
        "run_s": statistics.mean(lengths),
        "per_trial_ms": {"mean": mean, "low": low, "high": high},
        "worker_cpu_share": statistics.mean(shares),
        "worker_cpu_share_idle": statistics.mean(idle),
    }


# Many hosts


class Rows:
    """Rows that a host would have made by now: of a real one's size, at a rate."""

    def __init__(self, rate: float, count: int) -> None:
        self._rate, self._count, self.began = rate, count, 0.0

    def upto(self) -> int:
        return min(self._count, int((time.monotonic() - self.began) * self._rate)) if self.began else 0


def example(number: int) -> dict[str, Any]:
    """A row as `contend run` writes one, with a neighbour and its evidence."""
    evidence = [{"name": f"evidence_of_{n}", "value": 0.123456789 * n, "unit": "s"} for n in range(24)]
    metric = {"name": "wall", "value": 1.234567, "unit": "s", "better": "lower", "loop": "", "primary": True}
    neighbour = {
        "name": "stress-cpu",
        "before": 1.93,
        "during": 1.91,
        "after": 1.92,
        "unit": "CPU",
        "burning": True,
    }
    return {
        "schema_version": 1, "trial": number, "block": number // 3, "phase": "counted", "cell": "tiny|burner",
        "factors": {"victim": "tiny", "neighbour": "burner", "placement": "same-cpu"}, "clock": "CLOCK_MONOTONIC",
        "utc": "2026-11-20T18:42:10.123+00:00", "status": "ok", "error": "", "hint": "", "metrics": [metric] * 4,
        "evidence": evidence, "flags": [], "neighbours": [neighbour], "honoured": {"cpus": [1], "cpus_by": "cpuset"},
        "started_ns": 64_474_345_863_354, "ended_ns": 64_475_345_863_354, "overhead": {"wall_ns": 1, "cpu_ns": 1},
    }  # fmt: skip


async def serve(folder: Path, names: Sequence[str], address: str, rate: float, count: int) -> None:
    """Many workers in this process, each a host whose part is only said to run."""
    from distributed import Worker

    from contend.fleet import folders, host
    from contend.fleet.needs import settle_dask

    settle_dask()
    made: dict[str, Rows] = {}

    async def prepare(run: str, spec: Any, dask_worker: Any) -> dict[str, Any]:
        return {"problems": [], "part": dask_worker.name if dask_worker.name in made else ""}

    async def begin(run: str, spec: Any, dask_worker: Any) -> dict[str, Any]:
        rows = made.setdefault(dask_worker.name, Rows(rate, count))
        rows.began = rows.began or time.monotonic()
        return {"part": dask_worker.name}

    async def pull(
        run: str, after: int, known: int, wait_s: float, least_s: float, dask_worker: Any
    ) -> dict[str, Any]:
        rows, began = made[dask_worker.name], time.monotonic()
        while True:
            total = rows.upto()
            waited = time.monotonic() - began
            ended = (
                {"ended": "planned blocks done", "failed": 0, "interrupted": False}
                if total == count
                else None
            )
            if ended is not None or waited > wait_s or (total > after and waited >= least_s):
                break
            await asyncio.sleep(host.LOOK_S)
        told = {"part": dask_worker.name, "after": after, "rows": [example(n) for n in range(after, total)]}
        return {
            **told,
            "total": total,
            "ended": ended,
            "ready": 0,
            "notes": [],
            "late_ns": [],
            "running": ended is None,
        }

    async def files(run: str, dask_worker: Any) -> list[Any]:
        return []

    async def forget(run: str, dask_worker: Any) -> None:
        made.pop(dask_worker.name, None)

    # The coordinator names functions; these stand for them here.
    for function in (prepare, begin, pull, files, forget):
        setattr(host, function.__name__, function)
    workers = []
    for name in names:
        plugins = (host.Host(folder / "hosts", name),)
        workers.append(
            await Worker(
                address, name=name, nthreads=1, host="127.0.0.1", security=folders.security(folder), memory_limit=0,
                heartbeat_interval="5s", dashboard=False, plugins=plugins, local_directory=str(folder / "dask"),
            )
        )  # fmt: skip
    print("ready", flush=True)
    await asyncio.gather(*(worker.finished() for worker in workers))


def scale(hosts: int, seconds: float, rate: float, each: int) -> dict[str, Any]:
    from contend.fleet import up
    from contend.fleet.following import Following, Settings
    from contend.fleet.ssh import Way
    from contend.report.progress import NoProgress
    from contend.store.directory import RunDirectory
    from contend.store.ledger import Ledger
    from contend.studies.scenarios import load

    names = [f"h{n}" for n in range(hosts)]
    count = int(seconds * rate)
    with tempfile.TemporaryDirectory(prefix="contend-bench-") as place:
        home = Path(place)
        os.environ["XDG_STATE_HOME"] = f"{home}/state"
        began = time.monotonic()
        fleet = up.make(names, Way(), keep=True, by_hand=True, lost_s=600)
        made_s = time.monotonic() - began
        children = []
        try:
            for first in range(0, hosts, each):
                words = [
                    sys.executable,
                    str(HERE),
                    "--serve",
                    str(fleet.folder),
                    "--names",
                    ",".join(names[first : first + each]),
                ]
                words += [
                    "--rate",
                    str(rate),
                    "--count",
                    str(count),
                    "--address",
                    f"tls://127.0.0.1:{fleet.port}",
                ]
                children.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            for child in children:
                assert child.stdout is not None and child.stdout.readline() == "ready\n"
            joined_s = time.monotonic() - began
            scheduler = fleet.scheduler
            assert scheduler is not None
            idle_from, idle_at = cpu_s(scheduler), time.monotonic()
            time.sleep(10)
            idle = (cpu_s(scheduler) - idle_from) / (time.monotonic() - idle_at)
            scenario = load("noisy-neighbour")
            run = RunDirectory.create(home / "runs", "scale", "20261120-000000")
            run.write_json("environment.json", {})
            run.write_json("plan.json", {"fleet": {"hosts": names}, "trials": []})
            settings = Settings(fleet, "", scenario, dict.fromkeys(names, 1), {}, "bench", False, 600, 100)
            used = [cpu_s(scheduler), time.process_time(), sum(cpu_s(c.pid) for c in children)]
            began = time.monotonic()
            with Ledger(run.ledger_path) as ledger:
                asyncio.run(Following(settings, run, ledger, NoProgress()).go())
            wall_s = time.monotonic() - began
            used = [
                cpu_s(scheduler) - used[0],
                time.process_time() - used[1],
                sum(cpu_s(c.pid) for c in children) - used[2],
            ]
            rows = run.rows()
            keys = {(row["host"], row["trial"], row["attempt"]) for row in rows}
            size = run.trials_path.stat().st_size
            rss = {"scheduler": rss_mib(scheduler), "coordinator": rss_mib(os.getpid())}
            worker_mib = sum(rss_mib(c.pid) for c in children) / hosts
            run.close()
        finally:
            for child in children:
                child.terminate()
                child.wait()
                assert child.stdout is not None
                child.stdout.close()
            up.stop(fleet)
    return {
        "hosts": hosts,
        "rows": len(rows),
        "missing": hosts * count - len(keys),
        "doubled": len(rows) - len(keys),
        "rows_per_s": len(rows) / wall_s,
        "bytes_per_row": size / len(rows),
        "scheduler_ms_per_row": used[0] / len(rows) * 1e3,
        "coordinator_ms_per_row": used[1] / len(rows) * 1e3,
        "scheduler_cpu_share": used[0] / wall_s,
        "scheduler_idle_cpu_share": idle,
        "coordinator_cpu_share": used[1] / wall_s,
        "worker_cpu_share": used[2] / wall_s / hosts,
        "scheduler_mib": rss["scheduler"],
        "coordinator_mib": rss["coordinator"],
        "worker_mib_shared_process": worker_mib,
        "made_s": made_s,
        "joined_s": joined_s,
        "wall_s": wall_s,
        "least_s": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", default="100,300,1000", help="numbers of hosts, with commas")
    parser.add_argument("--seconds", type=float, default=60, help="how long hosts make rows")
    parser.add_argument("--rate", type=float, default=0.5, help="rows a second and host")
    parser.add_argument("--each", type=int, default=125, help="workers in a process")
    parser.add_argument("--rounds", type=int, default=6, help="of the overhead's comparison")
    parser.add_argument("--blocks", type=int, default=100, help="of three trials, in each of its runs")
    parser.add_argument("--skip-overhead", action="store_true")
    parser.add_argument("--write", type=Path, help="write PATH.json, PATH.md, and fleet-overhead beside it")
    for name in ("--serve", "--names", "--address", "--count"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(
            serve(Path(asked.serve), asked.names.split(","), asked.address, asked.rate, int(asked.count))
        )
        return
    with recording():
        both(asked)


def both(asked: argparse.Namespace) -> None:
    """What a host pays, and what the machine that starts them does."""
    if not asked.skip_overhead:
        print("on a host: the same scenario with and without the fleet", flush=True)
        told = overhead(asked.rounds, asked.blocks)
        ms = told["per_trial_ms"]
        print(f"  per trial {ms['mean']:+.1f} ms [{ms['low']:.1f}, {ms['high']:.1f}]; to be at most 50 ms")
        if asked.write:
            save_at(asked.write.with_name("fleet-overhead"), told)
        print(
            f"  worker {told['worker_cpu_share']:.2%} of a CPU in runs of {told['run_s']:.0f} s,"
            f" idle {told['worker_cpu_share_idle']:.2%}; to be at most 1 %"
        )
    scales = []
    for hosts in (int(word) for word in asked.hosts.split(",") if word):
        told = scale(hosts, asked.seconds, asked.rate, asked.each)
        scales.append(told)
        print(
            f"{hosts} hosts, {told['rows']} rows of {told['bytes_per_row']:.0f} B, {told['rows_per_s']:.0f} a second:"
        )
        for name in ("scheduler", "coordinator"):
            share, row, mib = told[f"{name}_cpu_share"], told[f"{name}_ms_per_row"], told[f"{name}_mib"]
            print(f"  {name:<12} {share:.1%} of a CPU, {row:.2f} ms a row, {mib:.0f} MiB")
        print(
            f"  a host       {told['worker_cpu_share']:.2%} of a CPU; idle scheduler {told['scheduler_idle_cpu_share']:.1%}"
        )
        print(
            f"  missing {told['missing']}, doubled {told['doubled']}; joined after {told['joined_s']:.0f} s,",
            end=" ",
        )
        print(f"done after {told['wall_s']:.0f} s of {told['least_s']:.0f}", flush=True)
    if asked.write and scales:
        save_at(asked.write, {"hosts": scales})


if __name__ == "__main__":
    main()
