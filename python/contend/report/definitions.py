"""Definitions that several of contend's documents refer to, by the name that they have there."""

from __future__ import annotations

from contend.advice.finding import Evidence, Finding
from contend.contention.alibi.verdict import CellAlibi, PhaseAlibi
from contend.contention.scheduling import CellSchedule
from contend.document import CellResult, Control, Design, Level, MetricInfo
from contend.platforms.quotas import Quota
from contend.report.schema_parts import Schema
from contend.shape import schema
from contend.stats.estimate import Estimate

_NAMED = {
    "estimate": Estimate,
    "metric": MetricInfo,
    "level": Level,
    "cell": CellResult,
    "quota": Quota,
    "control": Control,
    "evidence": Evidence,
    "finding": Finding,
    "phase_alibi": PhaseAlibi,
    "cell_alibi": CellAlibi,
    "cell_schedule": CellSchedule,
    "design": Design,
}

DEFINITIONS: dict[str, Schema] = {}
for _name, _of in _NAMED.items():
    _made = schema(_of)
    DEFINITIONS |= _made.pop("$defs", {}) | {_name: _made}
