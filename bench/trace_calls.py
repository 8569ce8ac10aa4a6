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
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trace_cases import CASES, Told

import contend
from contend.environment import fingerprint
from contend.stats.signed_rank import estimate

PEERS = ["viztracer", "opentelemetry-sdk", "osprofiler", "greenlet"]
HERE = Path(__file__).parent
# What DESIGN promises, added ns: on 3.11, and on newer.
TARGETS: dict[str, tuple[float, float]] = {
    "function, off": (15, 20),
    "function, on": (30, 30),
    "method, off": (15, 20),
    "method, on": (40, 40),
    "Lock, with, on": (0, 0),
    "Lock, contended, on": (1000, 1000),
    "Lock, contended on one CPU, on": (1000, 1000),
    "greenlet switch, on": (100, 100),
}
BESIDE = ("ns", "plain_ns", "added_ns")


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


def added(rounds: Sequence[Told], key: str = "added_ns") -> tuple[float, float, float]:
    """Estimate and interval; of few rounds their lowest and highest."""
    import numpy as np

    values = [told[key] for told in rounds]
    centre, low, high = estimate(np.array(values), 0.95)
    if not np.isfinite([low, high]).all():
        return statistics.median(values), min(values), max(values)
    return centre, low, high


def interval(rounds: Sequence[Told], key: str) -> str:
    """Of what else is a difference."""
    if not key.endswith("_longer_by_ns"):
        return ""
    _, low, high = added(rounds, key)
    return f" [{low:.1f}, {high:.1f}]"


def lines(version: str, found: dict[str, list[Told]]) -> Iterator[str]:
    newer = tuple(map(int, version.split(".")[:2])) > (3, 11)
    for case, rounds in found.items():
        if not rounds:
            continue
        middle = {key: statistics.median(told[key] for told in rounds) for key in rounds[0]}
        more = ", ".join(
            f"{key.removesuffix('_ns').replace('_', ' ')} {value:.1f}{interval(rounds, key)}"
            for key, value in middle.items()
            if key not in BESIDE
        )
        value, low, high = added(rounds)
        target = f"≤ {TARGETS[case][newer]:g}" if case in TARGETS else ""
        yield (
            f"| {version} | {case} | {middle['plain_ns']:.1f} | {middle['ns']:.1f} "
            f"| {value:.1f} [{low:.1f}, {high:.1f}] | {target} | {more} |"
        )


ABOUT = """\
CPU time of the thread that works; *with writer* also that of the thread that writes, to the last byte; *hand over* is
wall time from a release to the next holder's first step, each of the two on a CPU of its own if not said otherwise; *empty
callback* is what greenlet adds for any callback in C: the least that a switch would cost by `greenlet.settrace`."""


def document(
    given: argparse.Namespace, found: dict[str, dict[str, list[Told]]], peers: Any
) -> dict[str, Any]:
    machine = {k: v for k, v in fingerprint([]).items() if k in ("cpu", "cpus", "kernel", "os", "contend")}
    return {"machine": machine, "rounds": given.rounds, "peers": peers, "results": found}


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
    table = [
        "| CPython | case | plain ns | traced ns | added ns [95 %] | target | besides (ns) |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for version, cases in found.items():
        table += lines(version, cases)
    print("\n".join(table))
    if given.write:
        told = document(given, found, there)
        given.write.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
        m = told["machine"]
        where = (
            f"{m['cpus']} CPUs {m['cpu']}, kernel {m['kernel']}; {given.rounds} rounds; peers: "
            + "; ".join(
                f"{version}: {', '.join(f'{name} {at}' for name, at in sorted(of.items()))}"
                for version, of in there.items()
            )
        )
        text = [
            "# What `contend.trace` adds to a call, a lock and a switch",
            "",
            where,
            "",
            ABOUT,
            "",
            *table,
            "",
        ]
        given.write.with_suffix(".md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
