"""The result of cargo-mutants' faults in what blames and what replays: a seeded sample of those that it lists.

cargo-mutants lists the faults and writes each as a difference. They are tried here: it would run cargo’s tests alone, and
what hunts and replays is tested through the module for Python too, which is built anew with each fault.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

from mutation.targets import ROOT

FILES = ("crates/core/src/hunt/*.rs", "crates/core/src/replay/*.rs")
CARGO_TESTS = ("--package", "contend-core", "--lib", "--test", "ctrace", "--test", "replay")
PYTHON_TESTS = tuple(
    f"tests/unit/contention/test_{name}.py"
    for name in (
        "blame",
        "hunt_events",
        "hunt_calls",
        "hunt_processor",
        "hunt_rules",
        "hunt_waits",
        "run_events",
        "scaling_hunt",
        "whatif",
        "whatif_batches",
    )
)
MODULE = "python/contend/_native.abi3.so"
OUT = ROOT / "target" / "mutants" / "rust"
KILLED, SURVIVED, TIMED_OUT, UNVIABLE = "killed", "survived", "timed out", "unviable"
MOST_S = {"build": 600.0, "cargo": 120.0, "pytest": 120.0}
"""Wall time. Either tests take some seconds: what takes so long does not end."""
HINT = "cargo install cargo-mutants --locked"


def result(most: int, seed: int, jobs: int, minutes: float) -> dict[str, Any]:
    """Those that do not compile are no mutants: they are counted apart."""
    if shutil.which("cargo-mutants") is None:
        raise SystemExit(f"error: cargo-mutants is not installed\nhint: {HINT}")
    listed = {one["name"]: one for one in json.loads(_listed())}
    chosen = random.Random(seed).sample(sorted(listed), min(most, len(listed)))
    found = _known()
    wanted = [name for name in chosen if name not in found]
    print(
        f"rust: {len(chosen) - len(wanted)} of {len(chosen)} known from before, {len(wanted)} to try",
        flush=True,
    )
    _try_all([listed[name] for name in wanted], jobs, time.monotonic() + 60 * minutes)
    found = _known()
    cargo, pytest = " ".join(CARGO_TESTS), " ".join(PYTHON_TESTS)
    tried = list(itertools.takewhile(lambda name: name in found, chosen))
    outcomes = [found[name] for name in tried]
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    unviable = counts.pop(UNVIABLE, 0)
    return {
        "what": "`crates/core/src/hunt` and `replay`: who is to blame for a wait, and what a change would bring",
        "command": f"python scripts/mutants.py rust --sample {most} --seed {seed}",
        "tool": f"{_cargo_mutants('--version').strip()}; cargo test {cargo}; pytest {pytest}",
        "seed": seed,
        "mutants": len(listed),
        "wanted": len(chosen),
        "sampled": len(tried),
        "unviable": unviable,
        "outcomes": counts,
        "survivors": [_survivor(listed[name]) for name in sorted(tried) if found[name] == SURVIVED],
    }


def _try_all(mutants: Sequence[Mapping[str, Any]], jobs: int, until: float) -> None:
    """In as many copies of the tree, each with its own builds; outcomes are added to what is kept as they come."""
    if not mutants:
        return
    with ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for copy in pool.map(Copy, (OUT / f"copy{at}" for at in range(jobs))):
            copies.put(copy)
        kept, done = Lock(), itertools.count(1)

        def one(mutant: Mapping[str, Any]) -> None:
            if time.monotonic() > until:
                return
            copy = copies.get()
            try:
                outcome = copy.outcome_of(mutant)
            finally:
                copies.put(copy)
            row = {"name": mutant["name"], "outcome": outcome, "suite": _suite()}
            with kept, (OUT / "outcomes.ndjson").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
                print(f"  {next(done)} of {len(mutants)}: {outcome} {mutant['name']}", flush=True)

        for _ in pool.map(one, mutants):
            pass


class Copy:
    """A copy of the tree, whose sources can be changed while others work in the tree itself."""

    def __init__(self, place: Path) -> None:
        """Builds everything once, and sees all tests pass: SystemExit if they do not."""
        self.place = place
        tracked = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for name in filter(None, tracked.split("\0")):
            _copy_changed(ROOT / name, place / name)
        if (outcome := self._judged()) != SURVIVED:
            raise SystemExit(
                f"error: without a fault the tests' outcome is: {outcome}\nhint: see {place}.log"
            )

    def outcome_of(self, mutant: Mapping[str, Any]) -> str:
        path = self.place / mutant["file"]
        sound = path.read_text(encoding="utf-8")
        subprocess.run(
            ["patch", "--quiet", "--no-backup-if-mismatch", str(path)],
            input=mutant["diff"].encode(),
            check=True,
        )
        try:
            return self._judged()
        finally:
            path.write_text(sound, encoding="utf-8")

    def _judged(self) -> str:
        """By cargo's tests first, which take less."""
        if self._run("build", "cargo", "test", "--quiet", "--no-run", *CARGO_TESTS):
            return UNVIABLE
        code = self._run("cargo", "cargo", "test", "--quiet", *CARGO_TESTS)
        if code:
            return TIMED_OUT if code == _LATE else KILLED
        if self._run("build", "cargo", "build", "--quiet", "--package", "contend-python"):
            return UNVIABLE
        built = self.place / "target" / "debug" / "lib_native.so"
        shutil.copy2(built, self.place / MODULE)
        code = self._run(
            "pytest",
            sys.executable,
            *(
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                "-m",
                "not system and not accept and not slow",
            ),
            *PYTHON_TESTS,
        )
        if code:
            return TIMED_OUT if code == _LATE else KILLED
        return SURVIVED

    def _run(self, what: str, *command: str) -> int:
        """Its exit code, or _LATE. What it printed last is beside the copy."""
        environment = os.environ | {
            "CARGO_TARGET_DIR": str(self.place / "target"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_PROFILE_TEST_DEBUG": "0",
            "PYTHONPATH": str(self.place / "python"),
        }
        with Path(f"{self.place}.log").open("wb") as log:
            running = subprocess.Popen(
                command,
                cwd=self.place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return running.wait(MOST_S[what])
            except subprocess.TimeoutExpired:
                return _LATE
            finally:
                # With all that it started, also where this program is interrupted.
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()


_LATE = 1000


def _copy_changed(source: Path, to: Path) -> None:
    """Not what is the same: cargo builds anew what is newer."""
    if not source.is_file() or source.is_symlink():
        return
    content = source.read_bytes()
    if to.is_file() and to.read_bytes() == content:
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)


def _known() -> dict[str, str]:
    """As with Python: one that survived is tried again with other tests."""
    path = OUT / "outcomes.ndjson"
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    last = {row["name"]: row for row in rows}
    return {
        name: row["outcome"]
        for name, row in last.items()
        if row["outcome"] != SURVIVED or row["suite"] == _suite()
    }


@functools.cache
def _suite() -> str:
    told = hashlib.sha256()
    for path in sorted(_test_files()):
        told.update(path.read_bytes())
    return told.hexdigest()[:16]


def _test_files() -> Iterable[Path]:
    yield from (ROOT / "crates" / "core" / "tests").rglob("*.rs")
    yield from (ROOT / path for path in PYTHON_TESTS)


def _listed() -> str:
    return _cargo_mutants(
        "--list", "--json", "--diff", *(part for pattern in FILES for part in ("-f", pattern))
    )


def _cargo_mutants(*arguments: str) -> str:
    done = subprocess.run(
        ["cargo", "mutants", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"error: cargo mutants {' '.join(arguments)}: {done.stderr.strip() or '(no output)'}"
        )
    return done.stdout


def _survivor(mutant: Mapping[str, Any]) -> dict[str, Any]:
    """Its name is `crates/core/src/hunt/walk.rs:31:9: replace X with Y in Z`."""
    place, _, told = mutant["name"].partition(": ")
    function = (mutant["function"] or {}).get("function_name", "")
    was, _, now = told.removesuffix(f" in {function}").partition(" with ")
    return {
        "file": mutant["file"],
        "line": int(place.split(":")[1]),
        "function": function,
        "was": was.removeprefix("replace "),
        "now": now,
    }
