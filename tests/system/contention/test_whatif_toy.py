"""`contend whatif` on storms of real threads: small ones, so bounds are wide; tests/accept has the figures."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend import cli
from contend.contention.whatif.prediction import Whatif, whatif
from contend.contention.whatif.storms import Edit, open_storms
from contend.contention.whatif.times import Times
from contend.contention.whatif.verification import Verification
from contend.text.shape import schema
from support.answers import data_in
from support.processors import awake
from support.toy_storm import WORSENED, WORSENING, Parameters, realtime, storm, undisturbed

Run = Callable[..., tuple[int, str, str]]
JOBS = 24
STORMS = 6


@pytest.fixture(scope="module")
def storms(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("storms")
    of = dataclasses.replace(Parameters(), jobs=JOBS, realtime=realtime())
    places = [directory / f"{k}" for k in range(STORMS)]
    for k, place in enumerate(places):
        undisturbed(place, of, seed=k + 1)
    return places


@pytest.fixture(scope="module")
def coalesced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("after") / "coalesced"
    undisturbed(place, jobs=JOBS, realtime=realtime(), seed=9, coalesce=8)
    return place


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str, str]:
        code = cli.run(["whatif", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_unedited_storm_is_reproduced(storms: list[Path]) -> None:
    answer = whatif(open_storms(storms), rank=False)
    assert answer.gate.passed, answer.gate.reason
    assert answer.jobs == JOBS and answer.regime.kind in ("blocked", "mixed")
    median = answer.predicted["median_ns"]
    assert median.low is not None and median.high is not None
    assert median.low <= answer.baseline.median_ns <= median.high


def test_an_edit_comes_out_as_measured(storms: list[Path], coalesced: Path) -> None:
    answer = whatif(open_storms(storms), [Edit("coalesce", "call update", 8)])
    after = open_storms([coalesced])[0].storm.recorded()
    measured, before = Times.of(after), answer.baseline
    for key in ("median_ns", "makespan_ns"):
        predicted = answer.predicted[key].value
        assert predicted < 0.9 * getattr(before, key)
        assert abs(predicted / getattr(measured, key) - 1) < 0.2, (key, predicted, measured)


def test_a_change_that_makes_it_worse_is_seen(tmp_path: Path) -> None:
    fifo = realtime()
    with awake():
        undisturbed(tmp_path / "before", WORSENED, realtime=fifo)
        truth = undisturbed(tmp_path / "after", WORSENED, realtime=fifo, **WORSENING)
    answer = whatif(open_storms([tmp_path / "before"]), [Edit("hold", "resource", 0.4)])
    # So many threads begin together that on some hosts a tenth of the storm is waits for the interpreter.
    assert answer.gate.passed or "interpreter's lock" in str(answer.gate.reason), answer.gate.reason
    before, after = answer.baseline, answer.predicted
    assert truth.median > before.median_ns and after["median_ns"].value > before.median_ns
    assert abs(after["makespan_ns"].value / truth.makespan - 1) < 0.15


def test_a_storm_that_computes_is_refused(tmp_path: Path, run: Run) -> None:
    storm(tmp_path / "busy", busy=True, jobs=8, scale=0.5)
    code, _, _ = run(tmp_path / "busy", "--hold", "resource=0.5", "--json")
    assert code == 5


def test_documents_are_of_their_schemas_and_a_prediction_is_verified(
    storms: list[Path], coalesced: Path, tmp_path: Path, run: Run
) -> None:
    kept = tmp_path / "predicted.json"
    code, text, _ = run(*storms, "--coalesce", "call update=8", "-o", kept, "--json")
    document = data_in(text, code)
    assert code == 0, document["gate"]
    assert data_in(kept.read_text(), code) == document
    jsonschema.validate(document, schema(Whatif))
    assert any("learnt from" in note for note in document["notes"])
    code, text, _ = run(kept, "--verify", coalesced, "--json")
    told = data_in(text, code)
    jsonschema.validate(told, schema(Verification))
    assert code == {True: 0, False: 4}[told["inside"]]
    # The command that an answer ends with does the same, once that is recorded.
    edit = ("--coalesce", "call update=8")
    for options in ((*storms, *edit), (*storms, *edit, "-o", kept)):
        code, text, _ = run(*options)
        command = text.splitlines()[-1].partition(": ")[2]
        after = [word if word != "AFTER" else str(coalesced) for word in shlex.split(command)]
        assert after[:2] == ["contend", "whatif"] and str(coalesced) in after
        assert run(*after[2:])[0] == (0 if told["inside"] else 4)
    code, text, _ = run(kept, "--verify", storms[0], "--json")
    assert code == 4 and data_in(text, code)["inside"] is False, "nothing was changed"


def test_fixes_are_ranked(storms: list[Path], run: Run) -> None:
    # Of one storm alone, what else the host did is in its waits: the shortest one had least of it.
    of = {path: Times.of(open_storms([path])[0].storm.recorded()).makespan_ns for path in storms}
    code, text, _ = run(min(of, key=lambda path: of[path]), "--json")
    document: dict[str, Any] = data_in(text, code)
    jsonschema.validate(document, schema(Whatif))
    assert code == 0
    gains = [fix["gain"] for fix in document["fixes"] if len(fix["edits"]) == 1]
    assert gains == sorted(gains, reverse=True) and len(gains) == 3
    # Most of the hold is waiting for these calls.
    assert document["fixes"][0]["edits"] == ["--coalesce 'call update'=8"]
    assert document["predicted"]["median_ns"]["low"] is None, "no interval from one storm"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hold", "resurce=0.5"), "did you mean 'resource'?"),
        (("--global-queue", "poll"), "did you mean 'pool'?"),
        (("--remove", "auditt"), "did you mean 'audit'?"),
        (("--hold", "resource"), "--hold NAME=NUMBER"),
        (("--workers", "pool=many"), "--workers pool=8"),
        (("--job", "reboot"), "--job PATTERN"),
        (("--verify", "."), "neither a trace nor a run"),
    ],
)
def test_mistakes_name_what_would_be_right(
    storms: list[Path], words: tuple[str, ...], said: str, run: Run
) -> None:
    code, _, error = run(storms[0], *words)
    assert code == 2 and said in error


def test_the_tables_say_what_matters(storms: list[Path], run: Run) -> None:
    code, text, _ = run(storms[0], "--global-queue", "pool")
    assert code == 0 and "replay of the unedited storm" in text and "trusted" in text
    code, text, _ = run(storms[0], "--list")
    assert code == 0 and "hypervisor" in text and "call update" in text
