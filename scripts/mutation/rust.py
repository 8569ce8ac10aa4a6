"""The result of cargo-mutants on what blames and what replays: a seeded sample of the mutants that it lists."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from mutation.targets import ROOT

FILES = ("crates/core/src/hunt/*.rs", "crates/core/src/replay/*.rs")
TESTS = ("--lib", "--test", "ctrace", "--test", "replay")
OUT = ROOT / "target" / "mutants" / "rust"
OUTCOMES = {"caught": "killed", "missed": "survived", "timeout": "timed out", "unviable": "unviable"}
"""By the list in which cargo-mutants names them."""
HINT = "cargo install cargo-mutants --locked"


def result(most: int, seed: int, jobs: int, minutes: float) -> dict[str, Any]:
    """Those that do not compile are no mutants: they are counted apart."""
    if shutil.which("cargo-mutants") is None:
        raise SystemExit(f"error: cargo-mutants is not installed\nhint: {HINT}")
    of_files = [part for pattern in FILES for part in ("-f", pattern)]
    names = sorted(_cargo(["--list", *of_files]).splitlines())
    chosen = random.Random(seed).sample(names, min(most, len(names)))
    until = time.monotonic() + 60 * minutes
    found = _known()
    wanted = [name for name in chosen if name not in found]
    print(
        f"rust: {len(chosen) - len(wanted)} of {len(chosen)} known from before, {len(wanted)} to try",
        flush=True,
    )
    for begin in range(0, len(wanted), 20):
        if time.monotonic() > until:
            break
        _try(wanted[begin : begin + 20], of_files, jobs)
        found = _known()
        print(f"  {len([name for name in chosen if name in found])} of {len(chosen)}", flush=True)
    tried = list(itertools.takewhile(lambda name: name in found, chosen))
    outcomes = [found[name] for name in tried]
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    unviable = counts.pop("unviable", 0)
    return {
        "what": "`crates/core/src/hunt` and `replay`: who is to blame for a wait, and what a change would bring",
        "command": f"python scripts/mutants.py rust --sample {most} --seed {seed}",
        "tool": f"{_cargo(['--version']).strip()}; cargo test {' '.join(TESTS)}",
        "seed": seed,
        "mutants": len(names),
        "wanted": len(chosen),
        "sampled": len(tried),
        "unviable": unviable,
        "outcomes": counts,
        "survivors": [_survivor(name) for name in sorted(tried) if found[name] == "survived"],
    }


def _try(names: Sequence[str], of_files: Sequence[str], jobs: int) -> None:
    """One run of cargo-mutants, whose outcomes are added to what is kept."""
    place = OUT / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    exact = [part for name in names for part in ("-F", f"^{re.escape(name)}$".replace("\\ ", " "))]
    asked = [
        "--package",
        "contend-core",
        "--no-shuffle",
        "--baseline",
        "skip",
        "--timeout",
        "120",
        "-j",
        str(jobs),
    ]
    _cargo([*asked, "-o", str(place), *of_files, *exact, "--", *TESTS], may_fail=True)
    with (OUT / "outcomes.ndjson").open("a", encoding="utf-8") as file:
        for listed, outcome in OUTCOMES.items():
            for name in (place / "mutants.out" / f"{listed}.txt").read_text(encoding="utf-8").splitlines():
                file.write(json.dumps({"name": name, "outcome": outcome, "suite": _suite()}) + "\n")


def _known() -> dict[str, str]:
    """As with Python: one that survived is tried again with other tests."""
    path = OUT / "outcomes.ndjson"
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    last = {row["name"]: row for row in rows}
    suite = _suite()
    return {
        name: row["outcome"]
        for name, row in last.items()
        if row["outcome"] != "survived" or row["suite"] == suite
    }


def _suite() -> str:
    told = hashlib.sha256()
    for path in sorted((ROOT / "crates" / "core" / "tests").rglob("*.rs")):
        told.update(path.read_bytes())
    return told.hexdigest()[:16]


def _cargo(arguments: Sequence[str], *, may_fail: bool = False) -> str:
    done = subprocess.run(
        ["cargo", "mutants", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode and not may_fail:
        raise SystemExit(
            f"error: cargo mutants {' '.join(arguments)}: {done.stderr.strip() or '(no output)'}"
        )
    return done.stdout


def _survivor(name: str) -> dict[str, Any]:
    """`crates/core/src/hunt/walk.rs:31:9: replace X with Y in Z`."""
    told = re.fullmatch(r"(.+?):(\d+):(\d+): (.*)", name)
    if told is None:
        raise ValueError(f"a name of another form: {name}")
    change, _, function = told[4].rpartition(" in ")
    was, _, now = change.partition(" with ")
    return {
        "file": told[1],
        "line": int(told[2]),
        "function": function,
        "was": was.removeprefix("replace "),
        "now": now,
    }
