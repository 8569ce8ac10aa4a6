"""Charts of a forecast, where some of what it predicts has no interval."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from contend.cli.common import load_report
from contend.report.html import script_json
from contend.studies.sensitivity.plots import forecast_plots
from support.made_forecast import forecast_run


def test_a_prediction_without_an_interval_is_a_point(tmp_path: Path) -> None:
    """As of a run of which most rows are damaged."""
    run, _ = forecast_run(tmp_path, "form")
    told = load_report(run).analysis.result
    assert told is not None
    first, *others = told.pairs
    for low, high in ((math.nan, math.nan), (-math.inf, math.inf), (0.0, 2.0)):
        pair = replace(first, predicted=replace(first.predicted, low=low, high=high))
        *_, plot = forecast_plots(replace(told, pairs=(pair, *others)))
        assert plot.id == "pairs"
        assert script_json(plot.spec)
        point = plot.spec["data"]["values"][0]
        assert (point["low"], point["high"]) == (pair.predicted.value, pair.predicted.value)
