"""The result of one Python target."""

from __future__ import annotations

import importlib
import importlib.metadata
import itertools
import os
from typing import Any

from mutation.changes import Mutant, mutants_of, sampled
from mutation.covering import covering
from mutation.session import Session, collected
from mutation.targets import PYTHON, ROOT
from mutation.trying import SURVIVED, try_all


def result(name: str, most: int, seed: int, jobs: int, minutes: float) -> dict[str, Any]:
    target = next(target for target in PYTHON if target.name == name)
    os.environ.update(
        OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"
    )  # forks of a process with threads can hang
    mutants = mutants_of(ROOT, target.code_files(), ROOT / "target" / "mutants" / "listed")
    chosen = sampled(mutants, most, seed)
    told: dict[str, Any] = {}
    # Also what is imported late: tests run in children, and a fault is put in before.
    for file in target.code_files():
        importlib.import_module(".".join(file.relative_to(ROOT / "python").with_suffix("").parts))

    def body(session: Session) -> None:
        of_tests = covering(target, session, jobs)
        for test in of_tests.failed:
            print(f"  left out, for it failed with nothing mutated: {test}", flush=True)
        found = try_all(target, session, chosen, of_tests, jobs, minutes)
        # Of a run that was stopped the first ones drawn count: those known beyond them are not a random part.
        tried = list(itertools.takewhile(lambda mutant: mutant.key in found, chosen))
        outcomes = [found[mutant.key].outcome for mutant in tried]
        told.update(
            what=target.what,
            command=f"python scripts/mutants.py {name} --sample {most} --seed {seed}",
            tool=f"operators of mutmut {importlib.metadata.version('mutmut')}, run by scripts/mutation",
            seed=seed,
            mutants=len(mutants),
            wanted=len(chosen),
            sampled=len(tried),
            outcomes={outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
            tests=len(of_tests.cpu_s),
            tests_left_out=list(of_tests.failed),
            survivors=[
                _survivor(mutant)
                for mutant in sorted(tried, key=lambda mutant: (mutant.path, mutant.begin))
                if found[mutant.key].outcome == SURVIVED
            ],
        )

    collected(target.test_files(), body)
    return told


def _survivor(mutant: Mutant) -> dict[str, Any]:
    return {
        "file": mutant.path,
        "line": mutant.line,
        "function": mutant.function,
        "was": " ".join(mutant.was.split()),
        "now": " ".join(mutant.now.split()),
    }
