"""Runs as large as anybody makes them, made up in seconds: tens of thousands of trials with evidence, a diary, timelines.

Rows look like those of `contend run` on bare metal, field by field. Timelines are written by DuckDB from formulas, so that
a day of samples takes a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.studies.model import Scenario
from contend.studies.plan import Plan, Trial
from contend.studies.scenarios import parse, to_yaml

TEXT = """
study: interference
title: A long night
victims: [stress-cpu, stress-memory]
neighbours: [stress-cache, stress-switch, stress-disk]
measure: {blocks: BLOCKS, most: BLOCKS, pilot: 1, trial: 0.5s}
"""
CELLS = 10  # a block: each victim alone, its control, and beside each neighbour
SLOW = {"stress-cache": 1.3, "stress-switch": 1.9, "stress-disk": 1.0}
EVIDENCE = {
    "wall": "s", "cpu": "s", "wall_per_cpu": "ratio", "run_delay": "s", "run_delay_coverage": "fraction",
    "voluntary_switches": "count", "involuntary_switches": "count", "own_psi_cpu": "s", "own_psi_io": "s",
    "psi_cpu": "s", "psi_io": "s", "psi_memory": "s", "steal": "s", "foreign_cpu": "s", "disk_busy": "fraction",
    "disk_queue": "requests", "disk_iops": "IOPS", "disk_bytes_per_s": "B/s", "measured": "s",
}  # fmt: skip
S = 10**9
T0 = 5_000 * S
TRIAL_NS, PAUSE_NS = S // 2, S // 10
ENVIRONMENT = {
    "schema_version": 1, "contend": "0.1.0", "python": "3.11.7", "machine": "11a897411791", "os": "Debian GNU/Linux 12",
    "kernel": "6.18.44", "virtualised": "yes", "cpu": "AMD EPYC", "cpus": 2, "smt": False, "memory_gib": 23.5,
    "cgroup": "v1 + v2", "links_mbit_per_s": {}, "tools": {"stress-ng": "0.15.06"}, "skipped": [],
}  # fmt: skip


def big_run(
    place: Path, trials: int, *, name: str = "big", series: bool = True, seed: int = 12
) -> RunDirectory:
    """A finished run of so many counted trials, in whole blocks of CELLS, and its pilot."""
    blocks = max(1, trials // CELLS)
    scenario = parse(read_yaml(TEXT.replace("BLOCKS", str(blocks)), "mine.yaml", ScenarioError))
    plan = make_plan(scenario, 5, "pairs")
    run = RunDirectory.create(place, name, "20260101-000000")
    run.write_json(
        "plan.json", plan.to_json() | {"scenario": "mine.yaml", "command": "contend run mine.yaml"}
    )
    run.write_text("scenario.yaml", to_yaml(scenario))
    run.write_json("environment.json", ENVIRONMENT)
    done = [t for t in plan.trials if t.phase == "counted" or t.block == 0]
    _write_lines(run.trials_path, _rows(run, plan, scenario, done, seed))
    _write_lines(run.ledger_path, _events(run, done))
    if series:
        write_timelines(run.series, len(done))
    return run


def small_runs(place: Path, count: int, *, trials: int = 80, name: str = "small") -> list[Path]:
    """So many finished runs, analysed and with a page, a day apart. Each has a seed and a title of its own, as runs have."""
    from support.analysed import analyse
    from support.made_many import copies

    base = big_run(place.with_name(place.name + "-base"), trials, series=False)
    text = (base.path / "scenario.yaml").read_text()
    base.write_json("findings.json", analyse(base, parse(read_yaml(text, "mine.yaml"))).to_json())
    base.write_text("report.html", "<!doctype html><title>made up</title>")
    runs = copies(base.path, place, [1.0] * count, name=name)
    for number, run in enumerate(runs):
        own = text.replace("title: A long night", f"title: Night {number}").replace(
            "measure:", f"measure:\n  seed: {number}"
        )
        (run / "scenario.yaml").write_text(own)
    return runs


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def _rows(
    run: RunDirectory, plan: Plan, scenario: Scenario, trials: Sequence[Trial], seed: int
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    noise = np.exp(rng.normal(0, 0.02, len(trials)))
    seen = rng.random((len(trials), len(EVIDENCE)))
    cells = {cell.id: cell for cell in plan.cells}
    blocks = max(trial.block for trial in trials) + 1
    for number, trial in enumerate(trials):
        cell = cells[trial.cell]
        beside = [n.label for n in cell.neighbours]
        drift = 1 + 0.3 * trial.block / blocks  # shared by all cells of a block
        slow = SLOW.get(beside[0], 1.0) if beside else 1.0
        factor = slow * drift * float(noise[number])
        started = T0 + number * (TRIAL_NS + PAUSE_NS)
        evidence = dict(zip(EVIDENCE, seen[number].tolist(), strict=True))
        evidence |= {"wall": 0.5, "cpu": 0.5 / slow, "run_delay": 0.5 - 0.5 / slow, "measured": 0.5}
        evidence |= {"voluntary_switches": 7, "involuntary_switches": 22}
        yield {
            "schema_version": 1, "trial": trial.index, "block": trial.block, "phase": trial.phase, "cell": cell.id,
            "factors": dict(cell.factors), "clock": "CLOCK_MONOTONIC", "utc": _utc(started), "status": "ok", "error": "",
            "hint": "",
            "metrics": [
                {"name": "rate", "value": 3800 / factor, "unit": "ops/s", "better": "higher", "loop": "", "primary": True},
                {"name": "cpu", "value": 0.5 / slow, "unit": "s", "better": "lower", "loop": "", "primary": False},
            ],
            "evidence": [{"name": k, "value": v, "unit": EVIDENCE[k]} for k, v in evidence.items()],
            "flags": ["steal"] if number % 50 == 0 else [],
            "neighbours": [{"name": label, "during": 0.5, "unit": "CPUs"} for label in beside],
            "honoured": {
                "mechanism": "cgroup v2", "cpus": [1], "cpus_by": "affinity", "cpus_read_back": True, "limits": {},
                "groups": [f"/sys/fs/cgroup/unified/contend.{run.id}/victim-{cell.victim.label}"], "netns": None,
            },
            "started_ns": started, "ended_ns": started + TRIAL_NS,
            "overhead": {"wall_ns": 996_428, "cpu_ns": 8_218_662, "washout_ns": 0},
        }  # fmt: skip


def _utc(at_ns: int) -> str:
    seconds = (at_ns - T0) // S
    day, rest = divmod(seconds, 86_400)
    return f"2026-01-{1 + day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}.000+00:00"


def _events(run: RunDirectory, trials: Sequence[Trial]) -> Iterator[dict[str, Any]]:
    def event(at_ns: int, name: str, **detail: Any) -> dict[str, Any]:
        return {"schema_version": 1, "at_ns": at_ns, "utc": _utc(at_ns), "event": name, **detail}

    yield event(T0 - S, "run-start", run=run.id, pid=1, resumed=0)
    yield event(T0 - S, "pilot", rounds=1, spiky=0.0)
    for number, trial in enumerate(trials):
        yield event(T0 + number * (TRIAL_NS + PAUSE_NS), "trial-start", trial=trial.index)
    end = T0 + len(trials) * (TRIAL_NS + PAUSE_NS)
    yield event(end, "probe-cost", samples=len(trials) * 6, cpu_ns=10**6 * len(trials), bpf_ns=0)
    yield event(end, "run-end", stopped="planned blocks done", finished=len(trials))


def write_timelines(directory: Path, trials: int, interval_ns: int = S // 10) -> None:
    """A 2-CPU host, ten samples a second from a second before the first trial to the last: one busy CPU, one idle."""
    import duckdb

    directory.mkdir(parents=True, exist_ok=True)
    samples = (trials * (TRIAL_NS + PAUSE_NS) + 2 * S) // interval_ns
    at = f"({T0 - S} + i * {interval_ns})::BIGINT AS t_ns"
    late = "(500000 + i % 50000)::BIGINT AS lateness_ns"
    tables = {
        "host": f"""SELECT {at}, {late}, i * 150 AS interrupts, i * 300 AS context_switches, i AS forks,
            1 + i % 3 AS procs_running, 0 AS procs_blocked, {20 * 2**30} + i % 1000 * 4096 AS mem_available_bytes,
            i * 50000 AS psi_cpu_some_ns, 0 AS psi_io_some_ns, 0 AS psi_memory_some_ns FROM range({samples}) t(i)""",
        "cpu": f"""SELECT {at}, {late}, cpu, i * 80000000 * cpu AS user_ns, 0 AS nice_ns, i * 10000000 AS system_ns,
            i * (90000000 - 80000000 * cpu) AS idle_ns, 0 AS iowait_ns, 0 AS irq_ns, i * 100000 AS softirq_ns,
            i * 10000 AS steal_ns FROM range({samples}) t(i), range(2) c(cpu)""",
        "disk": f"""SELECT {at}, {late}, 'vda' AS device, i * 3 AS reads, i * 12288 AS read_bytes, i * 90000 AS read_ns,
            i * 5 AS writes, i * 20480 AS write_bytes, i * 150000 AS write_ns, 0 AS in_flight, i * 200000 AS busy_ns,
            i * 240000 AS queue_ns FROM range({samples}) t(i)""",
        "net": f"""SELECT {at}, {late}, device AS interface, i * 900 AS rx_bytes, i * 4 AS rx_packets, 0 AS rx_errors,
            0 AS rx_dropped, i * 700 AS tx_bytes, i * 4 AS tx_packets, 0 AS tx_errors, 0 AS tx_dropped
            FROM range({samples}) t(i), (VALUES ('lo'), ('eth0')) d(device)""",
        "process_use": f"""SELECT {at}, {interval_ns} AS interval_ns, 1000 + n AS pid, 1000 + n AS start_ns, name,
            cgroup, 1 AS threads, use AS user_ns, use // 10 AS system_ns, use // 20 AS run_delay_ns, 1 AS voluntary,
            1 AS involuntary, 0 AS minor_faults, 0 AS major_faults, 4096000 AS rss_bytes, 0 AS read_bytes,
            0 AS write_bytes, use AS busiest_thread_ns, 1000 + n AS busiest_tid FROM range({samples}) t(i),
            (VALUES (0, 'stress-ng', '/contend.big/victim-stress-cpu', 80000000),
                    (1, 'stress-ng', '/contend.big/neighbour-stress-cache', 9000000),
                    (2, 'contend', '/', 500000), (3, 'kworker/1:1', '/', 20000)) p(n, name, cgroup, use)""",
        "process": """SELECT 4999000000000 AS t_ns, 1000 + n AS pid, 1000 + n AS start_ns, 1 AS ppid, 'stress-ng' AS name,
            '/contend.big/victim-stress-cpu' AS cgroup, 0 AS event, 0 AS exit_code FROM range(4) t(n)""",
        "cgroup_use": f"""SELECT {at}, {interval_ns} AS interval_ns, '/contend.big/victim-stress-cpu' AS cgroup,
            80000000 AS user_ns, 8000000 AS system_ns, 0 AS throttled_ns, 0 AS throttled_periods, 0 AS periods,
            4000000 AS psi_cpu_some_ns, 0 AS psi_io_some_ns, 0 AS psi_memory_some_ns, 509739008 AS memory_bytes,
            0 AS memory_limit_bytes, 0 AS read_bytes, 0 AS write_bytes, 0 AS disk_read_bytes, 0 AS disk_write_bytes,
            2 AS processes FROM range({samples}) t(i)""",
    }  # fmt: skip
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, query in tables.items():
            target = directory / f"{name}-0000.parquet"
            connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
