"""Sleeps, a study that is no part of contend: how much longer than asked does a sleep take?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from contend.advice.finding import Finding
from contend.analysis import Layout
from contend.studies.base import OnRecord, Study
from contend.studies.cell import COMMAND_METRICS, Cell, Party
from contend.studies.model import Scenario
from contend.units import format_duration
from contend.workloads.instance import resolve
from contend.workloads.spec import Duration, Workload


class Sleeps(Scenario):
    """Sleeps of several lengths; the first is what the others are compared with."""

    study: Literal["sleeps"]
    asked: tuple[Duration, ...] = Field(min_length=2)


@dataclass(frozen=True, slots=True)
class Late:
    """By how long a sleep was asked for, how much longer it took: a median, s."""

    late_s: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"late_s": self.late_s}


class SleepsStudy(Study[Sleeps]):
    scenario = Sleeps
    key = "sleeps"

    def cells(self, scenario: Sleeps) -> tuple[Cell, ...]:
        made: list[Cell] = []
        for asked_ns in scenario.asked:
            name = format_duration(asked_ns)
            sleep = Workload(
                name="sleep",
                title=name,
                run=(f"sleep {asked_ns / 1e9}",),
                metrics=dict(COMMAND_METRICS),
                dominant="cpu",
                trial=f"{asked_ns}ns",
            )
            party = Party(name, resolve(sleep, {}))
            baseline = made[0].id if made else ""
            made.append(Cell(name, party, (), {"variant": name, "asked_s": f"{asked_ns / 1e9}"}, baseline))
            if not baseline:
                control = {**made[0].factors, "variant": f"{name} (control)"}
                made.append(Cell(f"{name} (control)", party, (), control, name, control=True))
        return tuple(made)

    def read(self, scenario: Sleeps, run: OnRecord) -> Late | None:
        late: dict[str, list[float]] = {}
        for row in run.counted:
            for metric in row["metrics"]:
                if row["status"] == "ok" and metric["name"] == "wall":
                    late.setdefault(row["factors"]["variant"], []).append(
                        metric["value"] - float(row["factors"]["asked_s"])
                    )
        return Late({name: statistics.median(over) for name, over in late.items()}) if late else None

    def answer(
        self, scenario: Sleeps, run: OnRecord, result: Late | None, findings: Sequence[Finding]
    ) -> str:
        if result is None:
            return ""
        name, over = max(result.late_s.items(), key=lambda item: item[1])
        return f"The sleep of {name} is the latest: {format_duration(over * 1e9)} more than was asked."

    def layout(self, result: Late | None) -> Layout:
        return Layout(
            as_measured=True,
            rows="metric",
            column="variant",
            named=frozenset({"asked_s"}),
            beside="",
            baseline="",
        )


STUDY = SleepsStudy()
