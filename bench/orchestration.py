"""What contend itself costs around a trial: wall and CPU time per trial beyond the workload, beside hyperfine.

Both run /bin/true, which does nothing: what is left is the tool. hyperfine's figures are of its whole process.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contend.store.ledger import read_rows

BLOCKS = 50


def main() -> None:
    contend = str(Path(sys.executable).with_name("contend"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        subprocess.run(
            [
                contend,
                "ab",
                "--json",
                "--runs",
                name,
                "--target",
                "none",
                "--blocks",
                str(BLOCKS),
                "--",
                "true",
                "--vs",
                "true",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        (run,) = place.glob("ab-*")
        rows = [r for r in read_rows(run / "trials.ndjson") if r["phase"] == "counted"]
        wall = [r["overhead"]["wall_ns"] / 1e6 for r in rows]
        cpu = [r["overhead"]["cpu_ns"] / 1e6 for r in rows]
        gap = [(b["started_ns"] - a["ended_ns"]) / 1e6 for a, b in itertools.pairwise(rows)]
        p90 = sorted(cpu)[int(len(cpu) * 0.9)]
        print(
            f"contend, per trial (n = {len(rows)}): CPU median {statistics.median(cpu):.1f} ms, p90 {p90:.1f} ms;"
            f" wall around the window {statistics.median(wall):.1f} ms,"
            f" from one window to the next {statistics.median(gap):.1f} ms"
        )
        if shutil.which("hyperfine"):
            by_hyperfine(place, len(rows))


def by_hyperfine(place: Path, runs: int) -> None:
    """The peer's own cost: its whole process less what the runs used."""
    command = [
        "hyperfine",
        "-N",
        "--runs",
        str(runs),
        "--export-json",
        place / "h.json",
        "--style",
        "none",
        "true",
    ]
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after, wall_s = os.times(), time.perf_counter() - began
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    own = json.loads((place / "h.json").read_text())["results"][0]
    cpu_ms = (spent_s / runs - own["user"] - own["system"]) * 1e3
    print(
        f"hyperfine, per run: CPU {cpu_ms:.1f} ms, wall {(wall_s / runs - own['mean']) * 1e3:.1f} ms"
        " (it records nothing beside the run)"
    )


if __name__ == "__main__":
    main()
