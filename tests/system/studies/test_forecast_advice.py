"""`contend advise` on a forecast that was really measured (tests/data/forecast-run): what its data carry, and no more.

`contend run interference-forecast` of five workloads and two injectors, six blocks, on a host of two CPUs that others kept
at a load of 20 to 58: about.json has the command, commit and date, and what was left out.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.advice.document import AdviceDocument
from contend.text.shape import schema
from support.command_line import Home, rows

KEPT = Path(__file__).parents[2] / "data/forecast-run"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("measured")
    with tarfile.open(KEPT / "run.tar.xz") as archive:
        archive.extractall(place, filter="data")
    return next(place.iterdir())


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / measured.name))


def advised(contend: Home, run: Path, code: int) -> dict[str, Any]:
    said = contend("advise", str(run), "--json", timeout=600).no_traceback()
    assert said.code == code, said
    document = said.json()
    jsonschema.validate(document, schema(AdviceDocument))
    (one,) = document["runs"]
    return dict(one)


def without(run: Path, gone: Callable[[dict[str, Any]], bool]) -> None:
    """Take rows out of it, as if these trials had never been."""
    kept = [row for row in rows(run) if not gone(row)]
    assert kept and len(kept) < len(rows(run))
    (run / "trials.ndjson").write_text("".join(json.dumps(row) + "\n" for row in kept))


def test_the_kept_run_is_whole(run: Path) -> None:
    about = json.loads((KEPT / "about.json").read_text())
    assert about.keys() == {"command", "commit", "date", "load", "left_out"}
    counted = [row for row in rows(run) if row["phase"] == "counted" and row["status"] == "ok"]
    assert {row["factors"]["role"] for row in counted} == {
        "alone",
        "curve",
        "calibration",
        "pressure",
        "pair",
    }
    assert {row["block"] for row in counted} == set(range(6))


def test_the_real_run_is_refused_for_what_its_data_say(run: Path, contend: Home) -> None:
    """Its median error is half of the baseline's, which eight held-out pairs do not show to be more than chance."""
    one = advised(contend, run, 5)
    assert one["refused"] == (
        "its errors on the held-out pairs are not shown to be smaller than a row and column effect's"
    )
    assert one["placement"] is None and one["findings"] == []


def test_without_its_held_out_pairs_nobody_knows_how_far_off_it_is(run: Path, contend: Home) -> None:
    held_out = set(json.loads((run / "plan.json").read_text())["held_out"])
    assert len(held_out) == 8
    without(run, lambda row: row["cell"] in held_out)
    assert "nobody knows how far off the forecast is" in advised(contend, run, 5)["refused"]


def test_without_the_injectors_calibration_there_is_no_scale(run: Path, contend: Home) -> None:
    without(run, lambda row: row["factors"]["role"] == "calibration")
    one = advised(contend, run, 5)
    assert "there is no trial of every kind of cell" in one["refused"] or "no scale" in one["refused"]


def test_a_run_of_a_moment_on_this_host_is_advised_on(shared_run: tuple[Home, Path]) -> None:
    """No forecast, but measured just now: what it found is what is advised."""
    home, run = shared_run
    one = advised(home, run, 0)
    assert (one["study"], one["refused"], one["placement"]) == ("interference", "", None)
    assert one["findings"] == json.loads((run / "findings.json").read_text())["findings"]
    for finding in one["findings"]:  # none where others on this host slowed both more
        assert finding["verify"].startswith("contend run ")
