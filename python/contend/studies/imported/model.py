"""Imported: what another tool measured. There is nothing to run."""

from __future__ import annotations

from typing import Literal

from contend.studies.model import Scenario

UNSAID = "the files do not say"
"""In environment.json, of what no file of a run says."""


class Imported(Scenario):
    """Measurements of another tool, as `contend import` read them: to report and compare, never to run.

    tool: whose files they were. settings: what all runs were asked for. cells: by their names, the settings in which they
    differ.
    """

    study: Literal["imported"]
    tool: str
    settings: dict[str, str] = {}
    cells: dict[str, dict[str, str]] = {}
