"""What `contend whatif` quotes of our own tests is what the results file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contend.contention.whatif.campaign import MEASURED, RESULTS

PLACE = Path(__file__).parents[3] / RESULTS


def test_the_quoted_figures_are_those_of_the_results_file() -> None:
    results = json.loads(PLACE.with_suffix(".json").read_text(encoding="utf-8"))
    assert (MEASURED.storms, MEASURED.cases) == (results["storms"], results["cases"])
    # Rounded up, so that what is quoted was never exceeded.
    for what in ("median", "makespan"):
        assert results["worst"][what] <= getattr(MEASURED, what) < results["worst"][what] + 0.002
    assert results["typical"] <= MEASURED.typical < results["typical"] + 0.002
    median, makespan = (f"{100 * results['worst'][what]:.1f} %" for what in ("median", "makespan"))
    words = f"median {median}, makespan {makespan}"
    assert words in PLACE.read_text(encoding="utf-8")
    assert results["worst"]["median"] == pytest.approx(
        max(abs(row["error"]) for row in results["rows"] if row["what"] == "median")
    )
