"""Predictions on kept traces: the same as in the campaign, and refused without what the program needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo import campaign, predictions
from zoo.again import main, row_again

pytestmark = pytest.mark.system


def test_a_kept_campaign_is_predicted_again_and_refused_without_what_it_needs(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    drawn = ["--only", "admission_executor", "--first", "11", "--count", "1", "--edits", "1", "--pairs", "8"]
    assert campaign.main([*drawn, "--keep", "-o", str(kept)]) == 0
    (before,) = campaign.rows(kept)
    assert "failed" not in before, before
    again = tmp_path / "again"
    for _ in range(2):
        assert main([str(kept), "-o", str(again)]) == 0
    (after,) = campaign.rows(again)
    assert after == before
    # Jobs that an executor lets in: who does not see that has nothing to say of it.
    without = row_again(before, kept / "programs", ["orders", "pools"])
    assert not without["edits"][0]["predicted"]["trusted"]
    assert without["edits"][0]["truth"] == before["edits"][0]["truth"]
    with pytest.raises(predictions.ContendFailed, match="not kept"):
        row_again(before, tmp_path)
    # Made again by its seed: the same program, traced anew.
    anew = row_again(before, tmp_path / "anew", retrace=campaign.how_drawn(kept))
    assert anew["edits"][0]["truth"] == before["edits"][0]["truth"]
    assert anew["edits"][0]["predicted"]["median"] is not None
    program = f"{before['population']}-{before['seed']}/program.py"
    assert (tmp_path / "anew" / program).read_text() == (kept / "programs" / program).read_text()
