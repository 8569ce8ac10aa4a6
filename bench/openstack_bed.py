"""How long the OpenStack test bed takes to come and go, and what it holds: docs/guides/openstack-testbed.md.

    python bench/openstack_bed.py [--without PART]... [--computes K]

Three to six minutes on two processors that have nothing else to do; packages are installed before if they are not there,
which is timed too. One JSON object on stdout. The bed is its own, in a temporary directory, and is removed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contend.testbed.openstack import install

COMMAND = [sys.executable, "-P", "-m", "contend.testbed.openstack"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--computes", default="3")
    parser.add_argument("--without", action="append", default=[])
    given = parser.parse_args()
    shape = ["--computes", given.computes, *(f"--without={part}" for part in given.without)]
    with tempfile.TemporaryDirectory(prefix="contend-bed-") as scratch:
        root = Path(scratch) / "bed"

        def timed(*words: str) -> dict[str, float]:
            """By the clock, and processor time of what it waited for: not of the services that it starts."""
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(
                [*COMMAND, "--root", str(root), *words], check=True, stdout=subprocess.DEVNULL, timeout=900
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return {"wall_s": round(time.monotonic() - began, 1), "cpu_s": round(used, 1)}

        told: dict[str, object] = {}
        began = time.monotonic()
        if install.install(Path(scratch) / "install.log"):
            told["packages"] = {"wall_s": round(time.monotonic() - began, 1)}
        try:
            told["first"] = timed("up", *shape)
            told["services"] = services = _status(root)
            told["memory_gib"] = round(sum(row["memory_bytes"] for row in services.values()) / (1 << 30), 2)
            told["services_cpu_s"] = round(sum(row["cpu_s"] for row in services.values()), 1)
            told["again"] = timed("up")
            told["down"] = timed("down")
            told["kept_data"] = timed("up")
        finally:
            told["wipe"] = timed("down", "--wipe")
    print(json.dumps(told, indent=1))


def _status(root: Path) -> dict[str, dict[str, float]]:
    said = subprocess.run(
        [*COMMAND, "--root", str(root), "status", "--json"], check=True, capture_output=True, text=True
    )
    rows = json.loads(said.stdout)["services"]
    return {
        row["service"]: {name: row[name] for name in ("processes", "memory_bytes", "cpu_s")} for row in rows
    }


if __name__ == "__main__":
    main()
