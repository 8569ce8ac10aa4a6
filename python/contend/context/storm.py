"""CPU time of all services that the boots of a finished boot storm took, storm by storm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from contend.clouds.storm.counted import TAIL_S
from contend.contention.whatif.batches import has_storms
from contend.context.costs import check_finished
from contend.errors import BadInput
from contend.store.cells import by_id
from contend.store.directory import RunDirectory
from contend.store.documents import documents as documents_of
from contend.store.file_shapes import wrong_storm
from contend.store.rows import latest
from contend.studies.scenarios import of_run
from contend.studies.storm.model import Storm
from contend.studies.storm.result import FILE, Document

Floats = npt.NDArray[np.float64]
NS = 1_000_000_000
_OFFER = "contend run boot-storm, on a cloud whose services run on this host"


@dataclass(frozen=True)
class Boots:
    """The storms of the largest size of a run. Arrays have one value a storm, of one of its boots.

    cpu_s: CPU time of all roles. roles: of each. messages: over the broker while the CPU time was read, those that go on
    anyway too; own_messages: without these. None where nobody counted. took_s: median from due to ACTIVE, of all boots.
    """

    run: str
    directory: Path
    cell: str
    n: int
    cpu_s: Floats
    roles: Mapping[str, Floats]
    messages: Floats | None
    own_messages: Floats | None
    took_s: Floats
    traces: str
    environment: Mapping[str, Any]
    documents: Sequence[Document] = field(repr=False)

    @property
    def storms(self) -> int:
        return len(self.cpu_s)


def boots(run: RunDirectory) -> Boots:
    """Boots of a finished boot-storm. Raises BadInput for a run of another study, and where it has no CPU time by role."""
    scenario = of_run(run)
    if not isinstance(scenario, Storm):
        raise BadInput(f"{run.id} is no boot storm: it is of a {scenario.study} study", hint=_OFFER)
    check_finished(run)
    plan = run.plan(scenario.study)
    planned = by_id(plan)
    by_cell: dict[str, list[Document]] = {}
    for row, document in documents_of(run.path, latest(run.rows(plan)), FILE, wrong_storm):
        by_cell.setdefault(planned[row["cell"]].measures, []).append(document)
    if not by_cell:
        raise BadInput(f"{run.id} has no storm", hint=f"contend report {run.path} says what failed")
    cell, documents = max(by_cell.items(), key=lambda item: int(item[1][0]["n"]))
    if not all(sum(document["cpu_s"].values()) > 0 for document in documents):
        raise BadInput(
            f"{run.id} has no CPU time of the cloud's services: they run elsewhere, so no share is known",
            hint=_OFFER,
        )
    served = np.array([float(document["served"]) for document in documents])
    roles = sorted({role for document in documents for role in document["cpu_s"]})
    by_role = {role: np.array([d["cpu_s"].get(role, 0.0) for d in documents]) / served for role in roles}
    counted = all("messages" in (d.get("counted") or {}).get("per_boot", {}) for d in documents)
    own = np.array([float(d["counted"]["per_boot"]["messages"][0]) for d in documents]) if counted else None
    anyway = np.array([_anyway(d) for d in documents]) / served if counted else None
    return Boots(
        run.id,
        run.path,
        cell,
        int(documents[0]["n"]),
        np.sum(list(by_role.values()), axis=0),
        by_role,
        None if own is None or anyway is None else np.maximum(own + anyway, 0.0),
        None if own is None else np.maximum(own, 0.0),
        np.array([float(document["median_s"]) for document in documents]),
        str(scenario.parameters.get("traces", "")),
        run.environment(),
        documents,
    )


def window(document: Document) -> tuple[int, int]:
    """The time (ns of CLOCK_MONOTONIC) around which the CPU time of a counted storm was read. Counters were read a little
    later."""
    began, ended = (int(ns) for ns in document["counted"]["storm_ns"])
    return began, max(began + 1, ended - round(TAIL_S * NS))


def _anyway(document: Document) -> float:
    """Messages of services that poll on their own, meanwhile."""
    began, ended = window(document)
    per_s = float(document["counted"]["background_per_s"].get("messages", 0.0))
    return max(0.0, per_s) * (ended - began) / NS


def newest(beside: Path) -> list[Path]:
    """Runs of storms in that directory, the newest first."""
    folders = (
        [path for path in beside.iterdir() if path.is_dir() and has_storms(path)] if beside.is_dir() else []
    )
    return sorted(folders, key=lambda path: (path / "plan.json").stat().st_mtime, reverse=True)
