"""Runs of every study, made without measuring."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from contend.imports.read import read_files
from contend.imports.write import write_run
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from support import ctrace_files as c
from support import foreign_files
from support.made_context import DOWNLOAD, IMAGE, RPC, costs_run, storms_run
from support.made_fleets import made_run as fleet_run
from support.made_forecast import forecast_run
from support.made_growths import growth_run
from support.made_placement import MadePlacement
from support.made_runs import Made
from support.made_samples import made_sample
from support.made_sweeps import one_pool
from support.made_watches import recorded
from support.report_series import write_series

AB = """
study: compare
title: Which command is faster?
variants: [{name: A, command: 'true'}, {name: B, command: 'true'}]
measure: {blocks: BLOCKS, target: null, pilot: 1}
"""
OVERHEAD = """
study: overhead
title: What does a container cost?
apps: [mpi-prime]
sizes: [1]
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""


def shelf(place: Path) -> dict[str, Path]:
    """One small run of each kind, by name."""
    made: dict[str, Path] = {}

    def keep(name: str, run: Path) -> None:
        (place / "shelf").mkdir(exist_ok=True)
        shutil.copytree(run, place / "shelf" / name)
        made[name] = place / "shelf" / name

    interference = Made(place / "a", 4, {"ffmpeg|stress-cpu": 2.0}, {})
    rows = interference.run.rows()
    timed = [
        {**row, "started_ns": (10 + 2 * n) * 10**9, "ended_ns": (11 + 2 * n) * 10**9}
        for n, row in enumerate(rows)
    ]
    interference.run.close()
    interference.run.write_text("trials.ndjson", "".join(json.dumps(row) + "\n" for row in timed))
    write_series(interference.run.series, timed)
    _diary(interference.run)
    keep("interference", interference.run.path)
    keep("rpc", costs_run(place / "b", {"ends_cpu": 0.8}, text=RPC, blocks=4).path)
    keep("download", costs_run(place / "c", {"client_cpu": 0.5}, text=IMAGE, base=DOWNLOAD, blocks=4).path)
    keep("storm", storms_run(place / "d", {"API": 0.2, "database": 0.1}, storms=3).path)
    forecast, _ = forecast_run(place / "e", blocks=2)
    forecast.close()
    _diary(forecast)
    keep("forecast", forecast.path)
    placement = MadePlacement(place / "f", blocks=3)
    placement.run.close()
    keep("placement", placement.run.path)
    (place / "g").mkdir()
    one_pool(place / "g")
    keep("sweep", next((place / "g").iterdir()))
    (place / "h").mkdir()
    fleet = fleet_run(place / "h", {"a": 1.2, "b": 1.3, "c": 1.25}, blocks=3, clocks=True)
    fleet.close()
    _diary(fleet)
    keep("fleet", fleet.path)
    keep("sample", made_sample(place / "i", 10, stacks=True).path)
    files = [foreign_files.write(place / f"j/{n}", foreign_files.fio(1000 + n)) for n in range(4)]
    keep("imported", write_run(read_files(files), place / "j" / "runs", "").path)
    overhead = Made(
        place / "k", 3, {"mpi-prime|container pinned 1 CPU": 1.1}, {},
        environment={"cpus": 2}, text=OVERHEAD,
    )  # fmt: skip
    overhead.run.close()
    keep("overhead", overhead.run.path)
    (place / "l").mkdir()
    watch, _ = recorded(place / "l" / "watch", 4)
    watch.write_text("environment.json", json.dumps({"cpus": 2, "cpu": "Made CPU", "os": "Made Linux 1"}))
    keep("watch", watch.path)
    growth = growth_run(place / "m")
    keep("growth", growth.path)
    keep("traced", _traced(place / "n").path)
    commands = Made(place / "o", 2, {}, {}, text=AB, environment={"cpus": 2}).run
    commands.close()
    _diary(commands)
    keep("ab", commands.path)
    return made


def _traced(place: Path) -> RunDirectory:
    """A run of a command whose counted trials were traced."""
    run = Made(place, 2, {}, {}, text=AB, environment={"cpus": 2}).run
    rows = run.rows()
    run.close()
    for row in rows:
        if row["phase"] == "counted":
            row["trace"] = f"traces/{row['trial']:06d}"
            traced(c.Made(100 + row["trial"])).save(_made(run.path / row["trace"]))
    run.write_text("trials.ndjson", "".join(json.dumps(row) + "\n" for row in rows))
    return run


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def traced(file: c.Made) -> c.Made:
    """Two jobs that wait for each other's lock and call something in between."""
    ms = 1_000_000
    file.track(1, c.PROCESS, "service")
    file.lock(1, c.LOCK, "the lock", "app.py:7")
    job, work = file.string("job"), file.string("work")
    for ring, begin in ((2, 0), (3, 5)):
        file.track(ring, c.THREAD, f"worker {ring}", parent=1, tid=ring)
        at = [n * ms for n in range(begin, begin + 40, 5)]
        file.events(ring, [
            c.event(at[0], c.JOB_BEGIN, job, ring), c.event(at[0] + 1, c.BEGIN, work),
            c.event(at[1], c.LOCK_WAIT, 1), c.event(at[2], c.LOCK_ACQUIRED, 1), c.event(at[4], c.LOCK_RELEASED, 1),
            c.event(at[5], c.END, work), c.event(at[6], c.JOB_END, job, ring),
        ])  # fmt: skip
    file.sync(50 * ms, 50 * ms)
    file.end(60 * ms)
    return file


def _diary(run: RunDirectory) -> None:
    """A ledger of a run that ended well."""
    with Ledger(run.ledger_path) as ledger:
        ledger.event("run-start", run=run.id, pid=2**22 + 1, resumed=0)
        ledger.intend("cgroup", f"contend.{run.id}/victim")
        ledger.created("cgroup", f"contend.{run.id}/victim")
        ledger.event("pilot", rounds=2, spiky=0.1)
        ledger.removed("cgroup", f"contend.{run.id}/victim")
        ledger.event("probe-cost", probe="contend-probe", samples=10, cpu_ns=10**6, bpf_ns=0)
        ledger.event("run-end", stopped="planned blocks done", finished=3)
