"""Two thousand ways to damage a run: how many end a verb in a way that none may."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contend.stats.quantiles import clopper_pearson
from results.files import save
from support.damaged import failures
from support.damaged_shelf import shelf

WAYS, FIRST = 2000, 10_000

pytestmark = [pytest.mark.accept, pytest.mark.timeout(7200)]


def test_two_thousand_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    runs = shelf(tmp_path / "shelf")
    failed: dict[int, list[str]] = {}
    for seed in range(FIRST, FIRST + WAYS):
        if found := list(failures(runs, seed, tmp_path / str(seed))):
            failed[seed] = [text.splitlines()[0] for text in found]
    bound = clopper_pearson(len(failed), WAYS)[1]
    document = {
        "ways": WAYS,
        "first_seed": FIRST,
        "failed": len(failed),
        "at_most": bound,
        "failures": {str(seed): texts for seed, texts in failed.items()},
    }
    save("damaged-runs", document)
    assert not failed, json.dumps(document["failures"], indent=1)
