"""Tries the sampled mutants of a target, keeps what came out, and goes on where it was stopped."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutation.changes import Mutant
from mutation.covering import Covering
from mutation.session import FAILED, PASSED, Fork, Session, all_ended, ended, start
from mutation.targets import ROOT, Target

KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
SLOWER, MORE_S, MOST_WALL = 5.0, 10.0, 20.0
"""A mutant may take so many times the CPU time of its tests, and this more; and so many times that in wall time."""
MOST_S, MOST_AROUND_S = 8.0, 4.0
"""CPU time of the tests that run the line, and of those that do not themselves: of each the cheapest are tried."""


@dataclass(frozen=True)
class Outcome:
    """`tests` is how many were chosen, `by` the first that failed, `suite` all that could be chosen."""

    key: str
    outcome: str
    tests: int
    by: str
    suite: str


class Kept:
    """What is known from before. A killed mutant stays killed; one that survived is tried again with other tests."""

    def __init__(self, target: Target) -> None:
        self.path = ROOT / "target" / "mutants" / f"{target.name}.ndjson"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows: dict[str, Outcome] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                row = Outcome(**json.loads(line))
                self.rows[row.key] = row

    def known(self, key: str, suite: str) -> Outcome | None:
        row = self.rows.get(key)
        return row if row and (row.outcome != SURVIVED or row.suite == suite) else None

    def add(self, row: Outcome) -> None:
        self.rows[row.key] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(row)) + "\n")


def try_all(
    target: Target,
    session: Session,
    mutants: Sequence[Mutant],
    of_tests: Covering,
    jobs: int,
    minutes: float,
) -> dict[str, Outcome]:
    """Outcomes by the mutants' keys. First with the tests that run the mutated line; those that survive that with the
    other tests of the files that reach the mutated file, since one test may have kept what another would compute. After
    so many minutes no further one is begun."""
    until = time.monotonic() + 60 * minutes
    kept = Kept(target)
    texts = {mutant.path: (ROOT / mutant.path).read_text(encoding="utf-8") for mutant in mutants}
    found: dict[str, Outcome] = {}
    waiting: list[tuple[Mutant, list[str], list[str]]] = []
    for mutant in mutants:
        known = kept.known(_key(mutant, texts), _suite(of_tests, mutant))
        if known:
            found[mutant.key] = known
            continue
        tests = _affordable(of_tests, of_tests.of(mutant.path, mutant.lines), MOST_S)
        others = [test for test in of_tests.of_file(mutant.path) if test not in set(tests)]
        waiting.append((mutant, tests, others) if tests else (mutant, others, []))
    print(
        f"{target.name}: {len(found)} of {len(mutants)} known from before, {len(waiting)} to try", flush=True
    )
    running: list[Fork] = []
    again: set[str] = set()  # of which half is done

    def settle(mutant: Mutant, outcome: str, tests: int, by: str) -> None:
        row = Outcome(_key(mutant, texts), outcome, tests, by, _suite(of_tests, mutant))
        kept.add(row)
        found[mutant.key] = row
        where = f"{mutant.path.removeprefix('python/contend/')}:{mutant.line}"
        print(f"{len(found):4} {outcome:9} {where} {_short(mutant.was)} → {_short(mutant.now)}", flush=True)

    with all_ended(running):
        while waiting or running:
            if time.monotonic() > until:
                waiting = [begun for begun in waiting if not begun[2] and begun[0].key in again]
            while waiting and len(running) < jobs:
                mutant, tests, others = waiting.pop(0)
                if not tests:
                    settle(mutant, SURVIVED, 0, "")
                    continue
                cpu_s = SLOWER * sum(of_tests.cpu_s[test] for test in tests) + MORE_S
                text = mutant.applied(texts[mutant.path])
                running.append(
                    start(
                        functools.partial(_try, session, mutant, text, tests),
                        cpu_s,
                        MOST_WALL * cpu_s,
                        (mutant, tests, others),
                    )
                )
            for fork, code, log in ended(running):
                mutant, tests, others = fork.tag
                if code == PASSED and (more := _affordable(of_tests, others, MOST_AROUND_S)):
                    waiting.insert(0, (mutant, more, []))
                    again.add(mutant.key)
                elif code == PASSED:
                    settle(mutant, SURVIVED, len(tests), "")
                elif code is None:
                    settle(mutant, TIMED_OUT, len(tests), "")
                elif code == FAILED or code < 0:
                    settle(mutant, KILLED, len(tests), _by(log))
                else:
                    raise RuntimeError(f"{mutant} ended with {code}: {log[-2000:]}")
            time.sleep(0.01)
    return found


def _try(session: Session, mutant: Mutant, text: str, tests: Sequence[str], place: Path) -> int:
    session.mutate(mutant, text)
    return session.run(place, tests, first=True)


def _affordable(of_tests: Covering, tests: Sequence[str], most_s: float) -> list[str]:
    chosen, cpu_s = [], 0.0
    for test in tests:
        cpu_s += of_tests.cpu_s[test]
        if cpu_s > most_s:
            break
        chosen.append(test)
    return chosen


def _key(mutant: Mutant, texts: dict[str, str]) -> str:
    return hashlib.sha256(f"{mutant.key}|{texts[mutant.path]}".encode()).hexdigest()[:16]


def _suite(of_tests: Covering, mutant: Mutant) -> str:
    """Changes with the tests that could kill the mutant, be it by name or by text."""
    told = hashlib.sha256()
    for test in sorted({test.partition("::")[0] for test in of_tests.of_file(mutant.path)}):
        told.update(test.encode() + (ROOT / test).read_bytes())
    return told.hexdigest()[:16]


def _by(log: str) -> str:
    return next(
        (line.removeprefix("failed: ") for line in log.splitlines() if line.startswith("failed: ")), ""
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
