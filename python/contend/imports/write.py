"""Writes what other tools measured as a run directory, as one of contend's own runs leaves it."""

from __future__ import annotations

import datetime
import random
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import contend
from contend.errors import ScenarioError
from contend.imports.cells import Placed
from contend.imports.read import Import
from contend.probes.observed import Observed
from contend.scenario.yaml_file import read_yaml
from contend.store.cells import Application, Values
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from contend.studies.imported.model import UNSAID, Imported
from contend.studies.model import Measure
from contend.studies.scenarios import parse, to_yaml
from contend.text.masking import mask_yaml

STOPPED = "imported"
_SAMPLES = Observed.SAMPLES


def write_run(imported: Import, runs: Path, name: str) -> RunDirectory:
    """Make a run directory below `runs`; on any error nothing stays. Raises BadInput for what no scenario may hold."""
    scenario = _scenario(imported)
    text = mask_yaml(to_yaml(scenario))  # nothing is to be measured again: what is a secret is needed no more
    parse(read_yaml(text, "what was imported", ScenarioError))
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    run = RunDirectory.create(runs, name or imported.format.name, stamp)
    try:
        run.write_scenario(text)
        run.write_json("environment.json", _environment(imported))
        run.write_json("plan.json", _plan(imported))
        with Ledger(run.ledger_path) as ledger:
            ledger.event("import", files=[s.name for s in imported.sources])
            run.extend(_row(number, placed, imported) for number, placed in enumerate(imported.placed))
            ledger.event("run-end", stopped=STOPPED, finished=len(imported.placed))
    except BaseException:
        run.close()
        run.remove()
        raise
    run.close()
    return run


def _scenario(imported: Import) -> Imported:
    tool, files = imported.format.name, len(imported.sources)
    return Imported(
        study="imported",
        title=f"{tool}, imported from {files} file{'s' if files != 1 else ''}",
        tool=tool,
        settings=imported.settings,
        cells={
            cell.id: {k: v for k, v in cell.settings.items() if k not in imported.settings}
            for cell in imported.cells
        },
        measure=Measure(target=None),
    )


def _environment(imported: Import) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "contend": contend.__version__,
        "imported": {
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "format": imported.format.name,
            "version": ", ".join(imported.versions) or UNSAID,
            "files": {s.name: f"sha256:{s.sha256}" for s in imported.sources},
            "host": UNSAID,
            "notes": list(imported.notes),
        },
        "tools": {imported.format.name: ", ".join(imported.versions) or "unknown"},
        "skipped": [],
    }


def _plan(imported: Import) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "seed": 0,
        "design": "pairs",
        "cells": [
            {
                "id": cell.id,
                "label": " ".join(cell.factors.values()),
                "factors": dict(cell.factors),
                "baseline": cell.baseline,
                "control": False,
                "no_ratio": cell.no_ratio,
                "warnings": list(cell.warnings),
                "values": Values(
                    Application(cell.factors["victim"]) if "victim" in cell.factors else None
                ).to_json(),
            }
            for cell in imported.cells
        ],
        "workloads": {},
        "columns": ["index", "block", "phase", "cell", "seed"],
        "trials": [[n, p.block, "counted", p.cell, 0] for n, p in enumerate(imported.placed)],
        "scenario": "",
        "command": shlex.join(_command(imported)),
    }


def _command(imported: Import) -> Sequence[str]:
    return ["contend", "import", *(s.name for s in imported.sources), "--as", imported.format.name]


def _row(number: int, placed: Placed, imported: Import) -> dict[str, Any]:
    run = placed.run
    factors = next(cell.factors for cell in imported.cells if cell.id == placed.cell)
    return {
        "trial": number,
        "block": placed.block,
        "phase": "counted",
        "cell": placed.cell,
        "factors": dict(factors),
        "clock": "",  # none of this host's: started_ns and ended_ns are not known
        "utc": None if run.began_s is None else _utc(run.began_s),
        "ended_utc": None if run.ended_s is None else _utc(run.ended_s),
        "file": imported.sources[placed.file].name,
        "status": "failed" if run.error else "ok",
        "error": run.error,
        "hint": "",
        "metrics": [] if run.error else [reading.to_json() for reading in run.readings],
        "evidence": [{"name": str(_SAMPLES), "value": float(run.samples), "unit": _SAMPLES.unit}],
        "flags": [],
        "neighbours": [],
        "honoured": {},
    }


def _utc(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
