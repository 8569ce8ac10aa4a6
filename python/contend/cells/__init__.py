"""Which cells a scenario compares, one file a study."""

from __future__ import annotations

from contend.errors import ScenarioError
from contend.studies import (
    Growth,
    Imported,
    Interference,
    NetworkPlacement,
    Overhead,
    Scenario,
    Sensitivity,
    Storage,
    Storm,
)
from contend.studies.cell import ALONE, APP, COMMAND, COMMAND_METRICS, CONTROL, Cell, Party, escape
from contend.studies.compare import cells as compare
from contend.studies.growth import cells as growth
from contend.studies.interference import cells as interference
from contend.studies.overhead import cells as overhead
from contend.studies.placement import cells as placement
from contend.studies.sensitivity import cells as sensitivity
from contend.studies.storage import cells as storage
from contend.studies.storm import cells as storm


def cells_of(scenario: Scenario) -> tuple[Cell, ...]:
    if isinstance(scenario, Interference):
        return interference.cells(scenario)
    if isinstance(scenario, Imported):
        raise ScenarioError(
            f"{scenario.origin or 'it'} is what {scenario.tool} measured: there is nothing to run",
            hint="contend report RUN shows it again",
        )
    if isinstance(scenario, Growth):
        return growth.cells(scenario)
    if isinstance(scenario, Overhead):
        return overhead.cells(scenario)
    if isinstance(scenario, NetworkPlacement):
        return placement.cells(scenario)
    if isinstance(scenario, Sensitivity):
        return sensitivity.cells(scenario)
    if isinstance(scenario, Storage):
        return storage.cells(scenario)
    return storm.cells(scenario) if isinstance(scenario, Storm) else compare.cells(scenario)


__all__ = ["ALONE", "APP", "COMMAND", "COMMAND_METRICS", "CONTROL", "Cell", "Party", "cells_of", "escape"]
