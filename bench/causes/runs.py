"""Runs of what is planted: contend measures, and the planter plants."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from causes import planted, planter
from contend.analysis.analyse import analyse
from contend.store.directory import RunDirectory
from contend.studies.scenarios import of_run

CONTEND = (sys.executable, "-m", "contend")
ENCLOSING = "enclosing quota"
LONGEST_S = 400


class RunFailed(Exception):
    """contend said why."""


KEPT = ("plan.json", "scenario.yaml", "environment.json", "ledger.ndjson", "trials.ndjson")
"""Files of a run that a judgement needs."""


def measured(
    folder: Path,
    kinds: Sequence[str],
    *,
    scale: float = 1.0,
    blocks: int = 6,
    seed: int = 1,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Run a victim of these mechanisms beside who uses them, in a folder that is there, and return the analysis.

    keep: where what is needed to judge the run again is written (`judged`). Raises RunFailed.
    """
    with _enclosed(kinds) as group, _planting(folder, kinds, group) as facts:
        path = planted.write(folder, kinds, facts, scale=scale, blocks=blocks, seed=seed)
        command = [*CONTEND, "run", str(path), "--json"]
        if group is not None:
            command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group), *command]
        run = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    if run.returncode:
        raise RunFailed(run.stderr.strip()[-300:])
    if keep is not None:
        (made,) = (folder / "runs").iterdir()
        keep.mkdir(parents=True)
        for name in KEPT:
            shutil.copy(made / name, keep / name)
    analysis: dict[str, Any] = json.loads(run.stdout)["data"]
    return analysis


def judged(kept: Path) -> dict[str, Any]:
    """Judge a kept run by the rules as they are now."""
    run = RunDirectory.open(str(kept))
    return analyse(run, of_run(run)).to_json()


@contextlib.contextmanager
def _planting(folder: Path, kinds: Sequence[str], group: Path | None) -> Iterator[dict[str, dict[str, str]]]:
    """Start a planter for this folder; yields what victims have to know."""
    environment = os.environ if group is None else {**os.environ, "CAUSES_GROUP": str(group)}
    command = [sys.executable, planter.__file__, str(folder), *kinds]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RunFailed("the planter could not plant it")
        yield json.loads(line)
        process.communicate()


@contextlib.contextmanager
def _enclosed(kinds: Sequence[str]) -> Iterator[Path | None]:
    """A group that all of a run is in, where a kind needs one."""
    if ENCLOSING not in kinds:
        yield None
        return
    group = planter.GROUPS / "cpu" / f"causes-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        group.rmdir()
