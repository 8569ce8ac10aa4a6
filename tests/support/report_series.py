"""A host's timelines as the probes write them: cumulative counters in Parquet, in two files each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

S = 1_000_000_000


def write_series(directory: Path, rows: Sequence[dict[str, Any]], step_s: float = 0.5) -> None:
    """Cumulative counters of a 2-CPU host with one disk and one interface, sampled while the trials ran."""
    import duckdb

    directory.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    busy = {0: 0.0, 1: 0.0}
    total = dict.fromkeys(
        ("t", "iowait", "steal", "reads", "writes", "queue", "psi_cpu", "psi_io", "ctxt"), 0.0
    )
    host, cpu, disk, net, programs = [], [], [], [], []
    now, end = rows[0]["started_ns"] - S, rows[-1]["ended_ns"] + S
    step = round(step_s * S)
    while now < end:
        row = next((r for r in rows if r["started_ns"] <= now <= r["ended_ns"]), None)
        cell = row["cell"] if row else ""
        cpu_load = 1.0 if row else 0.02
        crowd = 2.0 if "stress" in cell else 1.0 if row else 0.0
        io = ("fio randread" in cell) + ("fio randwrite" in cell)
        total["t"] += step
        busy[0] += step * cpu_load
        busy[1] += step * rng.uniform(0.02, 0.12)
        total["iowait"] += step * 0.2 * io
        total["steal"] += step * rng.uniform(0, 0.01)
        total["reads"] += (
            86_000 / (1 + ("randwrite" in cell)) * step_s * ("randread" in cell) * rng.uniform(0.95, 1.05)
        )
        total["writes"] += 41_000 * step_s * ("randwrite" in cell) * rng.uniform(0.95, 1.05)
        total["queue"] += step * 31 * io
        total["psi_cpu"] += step * max(0.0, crowd - 1) * rng.uniform(0.9, 1.0)
        total["psi_io"] += step * 0.3 * io
        total["ctxt"] += 4000 * step_s * (1 + 20 * io)
        host.append(
            (
                now,
                int(total["ctxt"]),
                int(total["ctxt"] / 2),
                round(crowd + rng.random() * 0.4),
                io,
                int(total["psi_cpu"]),
                int(total["psi_io"]),
                0,
                20 * 2**30,
            )
        )
        for number in (0, 1):
            used = busy[number]
            idle = max(0, int(total["t"] - used))
            cpu.append(
                (
                    now,
                    number,
                    int(used * 0.8),
                    0,
                    int(used * 0.2),
                    idle,
                    int(total["iowait"] / 2),
                    0,
                    int(used * 0.01),
                    int(total["steal"]),
                )
            )
        disk.append(
            (
                now,
                "vda",
                int(total["reads"]),
                int(total["reads"]) * 4096,
                int(total["writes"]),
                int(total["writes"]) * 4096,
                31 * io,
                int(total["iowait"]),
                int(total["queue"]),
            )
        )
        net.append((now, "lo", int(total["ctxt"]) * 900, int(total["ctxt"]) * 900))
        use = [
            ("victim", 0.8 * cpu_load, 0.2 * max(0.0, crowd - 1), 0),
            ("fio", 0.02 * io, 0.0, 4_000_000 * io),
        ]
        use.append((f"helper-{len(host) % 12:02d}", 0.001, 0.0, 0))  # more names than a chart has colours
        programs += [
            (now, name, "/", round(step * busy_part), 0, round(step * delay), 0, written)
            for name, busy_part, delay, written in use
        ]
        now += step + round(rng.uniform(0, 0.004) * S)
    columns = {
        "host": "t_ns, ctxt, intr, procs_running, procs_blocked, psi_cpu_some_ns, psi_io_some_ns, "
        "psi_memory_some_ns, mem_available_bytes",
        "cpu": "t_ns, cpu, user_ns, nice_ns, system_ns, idle_ns, iowait_ns, irq_ns, softirq_ns, steal_ns",
        "disk": "t_ns, device, reads, read_bytes, writes, write_bytes, in_flight, busy_ns, queue_ns",
        "net": "t_ns, interface, rx_bytes, tx_bytes",
        "process_use": "t_ns, name, cgroup, user_ns, system_ns, run_delay_ns, read_bytes, write_bytes",
    }
    tables = {"host": host, "cpu": cpu, "disk": disk, "net": net, "process_use": programs}
    for name, data in tables.items():
        half = len(data) // 2 // 2 * 2
        for number, part in enumerate((data[:half], data[half:])):
            literal = ", ".join(str(r) for r in part)
            target = directory / f"{name}-{number:04d}.parquet"
            table = f"SELECT * FROM (VALUES {literal}) AS v({columns[name]})"
            duckdb.sql(f"COPY ({table}) TO '{target}' (FORMAT parquet)")
