"""Costs of one call, or of 10^9 bytes downloaded, by each variant of a finished run, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from contend.analysis.comparisons import Table, tabulate
from contend.analysis.run import last_stop
from contend.document.context import IMAGE, RPC
from contend.errors import BadInput, ContendError
from contend.store.cells import planned_cells
from contend.store.directory import RunDirectory
from contend.store.rows import latest
from contend.studies.compare.model import Compare
from contend.studies.model import Scenario
from contend.studies.scenarios import of_run
from contend.units import parse_size_bytes

Floats = npt.NDArray[np.float64]

WORKLOADS = {"rpc": RPC, "rpc-elsewhere": RPC, "image-download": IMAGE, "image-download-glance": IMAGE}
_OFFER = "contend run rpc-envelope, rpc-broker and image-download measure what a component costs"


@dataclass(frozen=True)
class Costs:
    """Costs by variant and block. kind: RPC or IMAGE. variants: without the baseline. messages: 2 for a call, 1 for a
    cast. size: bytes of one download; 0 for calls. environment: of the host."""

    run: str
    kind: str
    baseline: str
    variants: tuple[str, ...]
    messages: int
    size: int
    level: float
    matters: float
    seed: int
    environment: Mapping[str, Any]
    _logs: Mapping[str, Mapping[str, Mapping[int, float]]]  # variant → metric → block → mean log

    def has(self, *metrics: str) -> bool:
        """True if every trial has all of these metrics."""
        return all(metric in logs for logs in self._logs.values() for metric in metrics)

    def both(self, variant: str, *metrics: str) -> Floats:
        """Logs of the baseline's metrics, then of the variant's, in the blocks that have all of them: shape (blocks, 2 ×
        metrics). Several trials of one block count by their mean."""
        columns = [
            self._logs[name].get(metric, {}) for name in (self.baseline, variant) for metric in metrics
        ]
        blocks = sorted(set.intersection(*(set(column) for column in columns)))
        return np.array([[column[block] for column in columns] for block in blocks]).reshape(
            len(blocks), len(columns)
        )


def is_cost(scenario: Scenario) -> bool:
    """True if runs of this scenario measure the cost of an RPC or of a download."""
    return isinstance(scenario, Compare) and scenario.workload in WORKLOADS


def check_finished(run: RunDirectory) -> None:
    """Check that a run has finished. Raises BadInput for one that is going on, was killed or interrupted, or failed."""
    events = [event for event in run.events() if event["event"] in ("run-start", "run-end")]
    stopped = last_stop(events) if events and events[-1]["event"] == "run-end" else ""
    if stopped in ("", "interrupted", "failed"):
        why = {"interrupted": ": it was interrupted", "failed": ": it failed"}.get(stopped, "")
        raise BadInput(f"{run.id} is not finished{why}", hint=f"contend run --resume {run.path}")


def costs(run: RunDirectory) -> Costs:
    """Costs of a finished run. Raises BadInput for a run of another study, and for one without a complete block."""
    scenario = of_run(run)
    if not isinstance(scenario, Compare) or scenario.workload not in WORKLOADS:
        what = getattr(scenario, "workload", "") or f"{scenario.study} study"
        raise BadInput(f"{run.id} tells no component's cost: it is of {what}", hint=_OFFER)
    check_finished(run)
    plan = run.plan()
    cells = planned_cells(plan)
    first = next(cell.id for cell in cells if not cell.baseline)
    names = tuple(cell.id for cell in cells if cell.baseline == first and not cell.control)
    table = tabulate(row for row in latest(run.rows(plan)) if row["phase"] == "counted")
    measured = tuple(name for name in names if name in table)
    if first not in table or not measured:
        raise BadInput(
            f"{run.id} has no trial of two variants to compare",
            hint=f"contend report {run.path} says what failed",
        )
    kind = WORKLOADS[scenario.workload]
    given = {**scenario.parameters, **scenario.variants[0].parameters}
    return Costs(
        run.id,
        kind,
        first,
        measured,
        1 if given.get("kind") == "cast" else 2,
        _size(plan, first, given) if kind == IMAGE else 0,
        scenario.measure.level,
        scenario.measure.matters,
        int(plan["seed"]),
        run.environment(),
        {name: _logs(table, name) for name in (first, *measured)},
    )


def _size(plan: Mapping[str, Any], cell: str, given: Mapping[str, Any]) -> int:
    """Size of the image."""
    try:
        default = plan["workloads"][cell]["parameters"]["size"]["default"]
        return parse_size_bytes(given.get("size", default))
    except (KeyError, ContendError):
        return 0


def _logs(table: Table, cell: str) -> dict[str, dict[int, float]]:
    """Logs of the metrics that are above 0 in every trial."""
    logs: dict[str, dict[int, float]] = {}
    for name, series in table[cell].items():
        if min(series.values) <= 0:
            continue
        by_block: dict[int, list[float]] = {}
        for block, value in zip(series.blocks, series.values, strict=True):
            by_block.setdefault(block, []).append(float(np.log(value)))
        logs[name] = {block: float(np.mean(values)) for block, values in by_block.items()}
    return logs
