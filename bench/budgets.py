"""Does `--budget` hold? Every built-in scenario that can run here, with budgets of half a block and of three blocks.

A block is what `--dry-run` says. For each: the budget, the wall time from the start of the process to its end, the part of
that which was tear-down (by the ledger, from `tear-down` to `run-end`), whole blocks, the exit code, and whether the promise
held: at most the budget, a tenth of it and 5 s, tear-down apart. A refusal takes a second; with `--named` the budget that it
names is tried too, and should give an answer.

    python bench/budgets.py [--only noisy-neighbour,storm-lab] [--named] [--cloud NAME] [--write docs/results/budgets]

With all scenarios and `--named` it takes hours: as long as the budgets that the refusals name. So it may be made in parts:
what stands in the file and is not measured again stays there, with its own commit, date and load.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from contend.engine.deadline import longest_s
from contend.store.directory import RunDirectory
from contend.store.ledger import read_rows
from contend.studies.scenarios import builtin_names
from contend.units import parse_duration_ns
from results import record
from results.files import load, path_of, save_at
from results.pages import budgets
from results.record import recording

CONTEND = Path(sys.executable).with_name("contend")
OF_BLOCKS = (0.5, 3.0)
REFUSED, NO_ANSWER, DONE = "refused", "no answer", "answer"


@dataclass(frozen=True, slots=True)
class Taken:
    """One run. Times in s. what: REFUSED, NO_ANSWER or DONE; named: the budget that a refusal names; load: of a minute,
    before it."""

    scenario: str
    asked_s: float
    of_blocks: float
    took_s: float
    tear_down_s: float
    blocks: int
    exit: int
    what: str
    named: str
    commit: str
    date: str
    load: float

    @property
    def over_s(self) -> float:
        """Beyond the budget, tear-down apart; negative where it was not used up."""
        return self.took_s - self.tear_down_s - self.asked_s

    @property
    def held(self) -> bool:
        return self.took_s - self.tear_down_s <= longest_s(self.asked_s)


def block_s(scenario: str, options: list[str]) -> float | None:
    """As `--dry-run` says; None where the scenario cannot be planned here."""
    told = contend("run", scenario, *options, "--dry-run", "--set", "measure.budget=null")
    found = re.search(r"([\d.a-z ]+) a block", told.stdout)
    if told.returncode or found is None:
        print(f"{scenario}: left out: {told.stderr.strip().splitlines()[:1]}", flush=True)
        return None
    return parse_duration_ns(_spoken(found[1])) / 1e9


def _spoken(text: str) -> str:
    """
    >>> _spoken(" 2 min 19 s"), _spoken("12.6 s"), _spoken("1 h 03 min")
    ('139s', '12.6s', '3780s')
    """
    seconds = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
    parts = re.findall(r"([\d.]+) (h|min|ms|s)\b", text)
    return f"{sum(float(value) * seconds[unit] for value, unit in parts):g}s"


def contend(*arguments: str, runs: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({} if runs is None else {"CONTEND_RUNS": str(runs)})}
    return subprocess.run(
        [str(CONTEND), *arguments], capture_output=True, text=True, check=False, env=environment
    )


def taken(scenario: str, options: list[str], asked_s: float, of_blocks: float) -> Taken:
    """Run it with that budget."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        said = contend("run", scenario, *options, "--budget", f"{asked_s:g}s", "--json", runs=Path(folder))
        took_s = time.monotonic() - began
        runs = list(Path(folder).iterdir())
        named = re.search(r"--budget (\d+[smh])", said.stderr)
        tear_down_s, blocks = _of_run(runs[0]) if runs else (0.0, 0)
    what = REFUSED if said.returncode == 2 else NO_ANSWER if said.returncode else DONE
    return Taken(
        scenario,
        round(asked_s, 1),
        of_blocks,
        round(took_s, 1),
        round(tear_down_s, 1),
        blocks,
        said.returncode,
        what,
        named[1] if named else "",
        record.commit(),
        time.strftime("%Y-%m-%d"),
        round(load, 1),
    )


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scenarios, separated by commas")
    parser.add_argument("--cloud", default="", help="for the scenarios that need one")
    parser.add_argument("--named", action="store_true", help="also the budgets that refusals name")
    parser.add_argument("--write", type=Path, help="a path without suffix, for .md and .json")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else sorted(builtin_names())
    found: list[Taken] = []
    for name in names:
        cloud = given.cloud or ("local" if name == "boot-storm" else "")
        options = ["--cloud", cloud] if cloud else []
        told = f"{name} on OpenStack" if given.cloud else name
        each_s = block_s(name, options)
        for of_blocks in OF_BLOCKS if each_s is not None else ():
            asked_s = max(1.0, (each_s or 0.0) * of_blocks)
            found.append(replace(taken(name, options, asked_s, of_blocks), scenario=told))
            print(_line(found[-1]), flush=True)
        named = found[-1].named if found and found[-1].scenario == told else ""
        if given.named and named:
            seconds = parse_duration_ns(named) / 1e9
            found.append(replace(taken(name, options, seconds, seconds / (each_s or 1.0)), scenario=told))
            print(_line(found[-1]), flush=True)
    broken = [one for one in found if not one.held]
    print(f"{len(found)} runs, {len(broken)} beyond the budget × 1.1 + 5 s")
    if given.write:
        save_at(given.write, {"runs": [_row(one) for one in together(given.write, found)]})
    sys.exit(1 if broken else 0)


def together(path: Path, found: list[Taken]) -> list[Taken]:
    """What was measured before and is not now, and what is now; by scenario and budget."""
    fields = Taken.__dataclass_fields__
    before = load(path.name, path.parent)["runs"] if path_of(path.name, path.parent).exists() else []
    kept = [Taken(**{name: row[name] for name in fields}) for row in before]
    now = {one.scenario for one in found}
    return sorted(
        (*(one for one in kept if one.scenario not in now), *found),
        key=lambda one: (one.scenario, one.asked_s),
    )


def _row(one: Taken) -> dict[str, Any]:
    return asdict(one) | {"over_s": round(one.over_s, 1), "held": one.held}


def _line(one: Taken) -> str:
    return " | ".join(map(str, budgets.row(_row(one))))


def _of_run(path: Path) -> tuple[float, int]:
    """Seconds of tear-down, and whole blocks."""
    with RunDirectory.open(str(path)) as run:
        rows, cells = run.rows(), len({c["id"] for c in run.read_json("plan.json")["cells"]})
        events = list(read_rows(run.ledger_path))
    counted: dict[int, set[str]] = {}
    for row in rows:
        if row["phase"] == "counted" and row["status"] == "ok":
            counted.setdefault(int(row["block"]), set()).add(str(row["cell"]))
    ends = [int(e["at_ns"]) for e in events if e["event"] == "tear-down"]
    last = [int(e["at_ns"]) for e in events if e["event"] == "run-end"]
    tear_down_s = (last[-1] - ends[-1]) / 1e9 if ends and last else 0.0
    return tear_down_s, sum(len(of) == cells for of in counted.values())


if __name__ == "__main__":
    main()
