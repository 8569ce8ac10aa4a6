"""Two thousand ways to damage a run: how many end a verb in a way that none may."""

from __future__ import annotations

import datetime
import json
import time
from pathlib import Path

import pytest

from contend.environment import fingerprint
from contend.stats.quantiles import clopper_pearson
from support.damaged import failures, shelf
from support.results import RESULTS, commit

WAYS, FIRST = 2000, 10_000
MACHINE = ("cpus", "cpu", "memory_gib", "os", "kernel", "virtualised", "python")

pytestmark = [pytest.mark.accept, pytest.mark.timeout(7200)]


def test_two_thousand_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    runs = shelf(tmp_path / "shelf")
    began = time.monotonic()
    failed: dict[int, list[str]] = {}
    for seed in range(FIRST, FIRST + WAYS):
        if found := list(failures(runs, seed, tmp_path / str(seed))):
            failed[seed] = [text.splitlines()[0] for text in found]
    bound = clopper_pearson(len(failed), WAYS)[1]
    machine = fingerprint()
    document = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {key: machine[key] for key in MACHINE if key in machine},
        "commit": commit(),
        "ways": WAYS,
        "first_seed": FIRST,
        "failed": len(failed),
        "at_most": bound,
        "took_s": round(time.monotonic() - began),
        "failures": {str(seed): texts for seed, texts in failed.items()},
    }
    (RESULTS / "damaged-runs.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    assert not failed, json.dumps(document["failures"], indent=1)
