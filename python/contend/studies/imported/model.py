"""Imported: what another tool measured. There is nothing to run."""

from __future__ import annotations

from typing import Literal

from contend.studies.model import Scenario

UNSAID = "the files do not say"
"""In environment.json, of what no file of a run says."""


class Imported(Scenario):
    """What another tool measured, as `contend import` read it: it is reported and compared, never run.

    tool: whose files they were. settings: what all runs were asked for. cells: by their names, the settings in which they
    differ.
    """

    study: Literal["imported"]
    tool: str
    settings: dict[str, str] = {}
    cells: dict[str, dict[str, str]] = {}
