"""What tracing adds to a call, a lock and a switch, beside the peers, in one run: ns of CPU time each.

    python bench/trace_calls.py [--rounds 7] [--python PYTHON …] [--peers DIRECTORY] [--write docs/results/trace-calls]

Every PYTHON (this one, and what --python names) gets a virtual environment of this bench's own, in DIRECTORY or a
temporary one, with the peers that pip can get for it: VizTracer, OpenTelemetry's SDK, osprofiler, greenlet; cProfile
comes with Python. What cannot be had is left out, and said. This contend is put on its path. Each round runs every case
of `trace_cases.py` once on every interpreter, each in a process of its own, in random order. What a case adds is its
difference to the same loop without the tracer, in turn with it in one process. The interval is that of the rounds
(Hodges and Lehmann's estimate, 95 %).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import contend
from results.files import save_at
from results.pages import trace_calls
from results.record import recording
from results.words import table
from trace_cases import CASES, Told

PEERS = ["viztracer", "opentelemetry-sdk", "osprofiler", "greenlet"]
HERE = Path(__file__).parent


# What DESIGN promises, added ns: on 3.11, and on newer.
def interpreter(python: str, directory: Path, peers: Sequence[str]) -> tuple[str, str]:
    """Its version, and the Python of an environment with those peers, as far as pip can get them."""
    version = subprocess.run(
        [python, "-c", "import platform, sys; print(platform.python_version() + sys.abiflags)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    own = directory / version
    inside = str(own / "bin" / "python")
    if not Path(inside).exists():
        subprocess.run([python, "-m", "venv", str(own)], check=True)
        for name in peers:
            pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name]
            if subprocess.run(pip, check=False).returncode:
                print(f"{version}: {name} cannot be installed: left out", file=sys.stderr)
    return version, inside


def versions(inside: str) -> dict[str, str]:
    """Of the peers that are there."""
    told = subprocess.run(
        [inside, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {row["name"]: row["version"] for row in json.loads(told.stdout) if row["name"] in PEERS}


def one(inside: str, version: str, case: str) -> Told | None:
    package = str(Path(contend.__file__).parent.parent)
    with tempfile.TemporaryDirectory() as directory:
        child = subprocess.run(
            [inside, str(HERE / "trace_cases.py"), case, directory],
            env={**os.environ, "PYTHONPATH": package},
            capture_output=True,
            text=True,
            check=False,
        )
    if child.returncode:
        why = (child.stderr.strip().splitlines() or [f"signal {-child.returncode}"])[-1]
        print(f"{version}, {case}: left out: {why}", file=sys.stderr)
        return None
    told: Told = json.loads(child.stdout.splitlines()[-1])
    return told


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--python", action="append", default=[], help="another interpreter; may be given again"
    )
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this; may be given again")
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = given.peers or Path(scratch) / "peers"
        wanted = given.case or CASES
        peers = PEERS if any(":" in case or "greenlet" in case for case in wanted) else []
        inside = dict(interpreter(python, directory, peers) for python in (sys.executable, *given.python))
        found: dict[str, dict[str, list[Told]]] = {
            version: {case: [] for case in wanted} for version in inside
        }
        for _ in range(given.rounds):
            order = [(version, case) for version, cases in found.items() for case in cases]
            for version, case in random.sample(order, len(order)):
                told = one(inside[version], version, case)
                if told is not None:
                    found[version][case].append(told)
        there = {version: versions(python) for version, python in inside.items()}
    told = {"rounds": given.rounds, "peers": there, "results": found}
    print(table(trace_calls.HEAD, trace_calls.rows(told), "llrrrll"))
    if given.write:
        save_at(given.write, told)


if __name__ == "__main__":
    main()
