"""Does `contend whatif` on the version before a contention fix say what the fix gave?

    python bench/contention_fixes.py [NAME …] [--most 60] [--again] [--write docs/results/contention-fixes]

Each file of bench/contention_fixes/fixes is a fix from the history of a public project: two versions of it, and a storm of
jobs that runs into the contention. Both versions are installed from the package index into environments of their own, which
are kept in ~/.cache/contend. For each fix

 1. storms of both versions are timed by the jobs' own clock, nothing traced, in randomised turns of one each, until the
    95 % interval of the ratio of their medians is ±3.3 % or narrower, or after --most turns;
 2. eight storms of the version before are recorded (`contend trace --cpu-times`);
 3. `contend whatif` is asked about the edit that comes closest to the fix, where one does, and without any, for its ranking.

The services that a workload talks to are on the loopback device, and end with it. A row is kept when it is complete: a run
that was stopped goes on where it stood, --again measures what is there once more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contend.errors import ContendError
from contend.stats.compare import compare
from contend.stats.estimate import Estimate
from contend.stats.stopping import Stopping
from contention_fixes.catalogue import SUPPORT, Fix, fixes
from contention_fixes.environments import cache, environment
from results.files import save_at
from results.record import commit, recording

VERSIONS = ("before", "after")
FIGURES = ("median", "makespan")
TARGET = 0.033
"""Relative half-width of the ratio's interval at which no more turns are made."""
TRACES = 8
"""Twice as many storms as a prediction interval needs: it is a third narrower."""
STORM_S = 120
PYTHON = Path(__file__).parents[1] / "python"
CONTEND = (sys.executable, "-m", "contend")

Row = dict[str, Any]


def main() -> int:
    """1 where a fix could not be measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--most", type=int, default=60, help="turns of a fix at most")
    parser.add_argument("--again", action="store_true", help="also what has a row of this commit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    given = parser.parse_args()
    known = fixes()
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"no fix '{unknown[0]}'; there are {', '.join(known)}")
    failed, rows = [], []
    with recording():
        for name in given.names or known:
            kept = cache() / "rows" / f"{name}-{meaning(known[name])}.json"
            if kept.exists() and not given.again:
                rows.append(json.loads(kept.read_text(encoding="utf-8")))
                show(rows[-1])
                continue
            try:
                rows.append(
                    row_of(
                        known[name], Stopping(6, 2, TARGET, given.most), random.Random(f"{given.seed} {name}")
                    )
                )
            except (ContendError, subprocess.SubprocessError, ValueError) as error:
                failed.append(name)
                print(f"{name}: {error} {getattr(error, 'hint', '')}", file=sys.stderr)
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(rows[-1]), encoding="utf-8")
            show(rows[-1])
        if given.write and rows:
            save_at(
                given.write,
                {"traces": TRACES, "target": TARGET, "rows": rows, "failed": failed},
                seed=given.seed,
            )
    return 1 if failed else 0


def meaning(fix: Fix) -> str:
    """What a kept row depends on: this commit, and the files of the experiment, which may have changed since."""
    files = [Path(__file__), fix.workload, *sorted(SUPPORT.glob("*.py"))]
    return f"{commit()}-{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:12]}"


def row_of(fix: Fix, stopping: Stopping, chance: random.Random) -> Row:
    """Measure one fix, and ask about it."""
    pythons = {version: environment(fix.requirements(version), fix.build) for version in VERSIONS}
    measured = measure(fix, pythons, stopping, chance)
    with tempfile.TemporaryDirectory(prefix="contend-fixes-") as place:
        traces = [record(fix, pythons["before"], Path(place) / f"storm-{k}") for k in range(1, TRACES + 1)]
        edited = ask(traces, fix.edit) if fix.edit else None
        ranked = ask(traces, ())
    return {"name": fix.name} | asdict(fix) | {"measured": measured, "edited": edited, "ranked": ranked}


def measure(fix: Fix, pythons: dict[str, Path], stopping: Stopping, chance: random.Random) -> Row:
    """Seconds of both versions, medians over the storms, and the ratios after / before."""
    found: dict[str, dict[str, list[float]]] = {
        version: {figure: [] for figure in FIGURES} for version in VERSIONS
    }
    turns = 0
    while True:
        for version in chance.sample(VERSIONS, len(VERSIONS)):
            for figure, value in storm(fix, [str(pythons[version])]).items():
                found[version][figure].append(value)
        turns += 1
        if not stopping.look_at(turns):
            continue
        ratios = {figure: compare(found["before"][figure], found["after"][figure]) for figure in FIGURES}
        if stopping.reached([ratios["median"]]) or stopping.ended(turns):
            break
    return {
        "turns": turns,
        "reached": stopping.reached([ratios["median"]]),
        "seconds": {v: {f: round(statistics.median(found[v][f]), 5) for f in FIGURES} for v in VERSIONS},
        "ratio": {figure: _interval(ratio) for figure, ratio in ratios.items()},
    }


def storm(fix: Fix, command: Sequence[str]) -> dict[str, float]:
    """One storm, by a command that a workload's path is added to. Raises ValueError where it fails."""
    done = subprocess.run(
        [*command, str(fix.workload)],
        env=_surroundings(),
        capture_output=True,
        text=True,
        timeout=STORM_S,
        check=False,
    )
    if done.returncode:
        raise ValueError(
            f"the storm of {fix.name} ended with exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith('{"durations_s"'))
    said = json.loads(line)
    return {"median": statistics.median(said["durations_s"]), "makespan": said["makespan_s"]}


def record(fix: Fix, python: Path, place: Path) -> Path:
    """One traced storm."""
    include = [word for pattern in fix.include for word in ("--include", pattern)]
    storm(fix, [*CONTEND, "trace", "--cpu-times", *include, "-o", str(place), "--", str(python)])
    return place


def ask(traces: Sequence[Path], edit: Sequence[str]) -> Row:
    """What `contend whatif` answers: ratios predicted / recorded, and where it refuses why."""
    said = subprocess.run(
        [*CONTEND, "whatif", *map(str, traces), "--job", "job", *edit, "--json"],
        env=_surroundings(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if said.returncode not in (0, 5):
        reason = _without_paths(said.stderr, traces).strip().removeprefix("error: ")
        return {"exit": said.returncode, "trusted": False, "reason": reason, "fixes": []}
    answer = json.loads(_without_paths(said.stdout, traces))["data"]
    recorded = answer["baseline"]
    return {
        "exit": said.returncode,
        "trusted": answer["gate"]["passed"],
        "reason": answer["gate"]["reason"],
        "self_replay_error": answer["gate"]["self_replay_error"],
        "regime": answer["regime"]["kind"],
        "recorded_s": {figure: recorded[f"{figure}_ns"] / 1e9 for figure in FIGURES},
        "ratio": {figure: _predicted(answer["predicted"], recorded, figure) for figure in FIGURES},
        "fixes": [
            {"edits": one["edits"], "ratio": _predicted(one["predicted"], recorded, "median")}
            for one in answer["fixes"]
        ],
        "notes": answer["notes"],
    }


def _without_paths(text: str, traces: Sequence[Path]) -> str:
    """Names of traces and of files of an environment, without where they lie on this machine."""
    return text.replace(f"{traces[0].parent}/", "").replace(str(cache() / "environments"), "…")


def _predicted(predicted: Row, recorded: Row, figure: str) -> list[float | None]:
    key = f"{figure}_ns"
    value, base = predicted[key], recorded[key]
    return [
        None if value[bound] is None else round(value[bound] / base, 4) for bound in ("value", "low", "high")
    ]


def _interval(ratio: Estimate) -> list[float]:
    return [round(ratio.value, 4), round(ratio.low, 4), round(ratio.high, 4)]


def _surroundings() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{SUPPORT}{os.pathsep}{PYTHON}", "PYTHONDONTWRITEBYTECODE": "1"}


def show(row: Row) -> None:
    """One line for the person who waits."""
    value, low, high = row["measured"]["ratio"]["median"]
    print(
        f"{row['name']}: {row['measured']['turns']} turns, after/before {value:.3f} [{low:.3f}, {high:.3f}]",
        flush=True,
    )
    for key in ("edited", "ranked"):
        if (answer := row[key]) is None:
            continue
        if answer["trusted"]:
            best = (
                f"; best {' '.join(answer['fixes'][0]['edits'])} {answer['fixes'][0]['ratio'][0]}"
                if answer["fixes"]
                else ""
            )
            print(
                f"  {key} {' '.join(row['edit']) if key == 'edited' else ''}: {answer['ratio']['median']}{best}"
            )
        else:
            print(f"  {key}: refused: {answer['reason']} {answer.get('ratio', {}).get('median')}")


if __name__ == "__main__":
    sys.exit(main())
