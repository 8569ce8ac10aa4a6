"""Every verb's `--json` has one form, and in it what docs/reference says of that verb."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from contend import cli
from contend.contention.whatif.verification import stored
from contend.errors import BadInput
from contend.text.answer import data_of
from support.made_context import costs_run, storms_run
from support.made_samples import made_sample
from support.made_watches import recorded

REFERENCE = Path(__file__).parents[3] / "docs/reference"
CSV = "block,cell,value\n" + "".join(
    f"{n},{cell},{value + n % 3}\n"
    for n in range(20)
    for cell, value in (("a", 100), ("b", 120))[:: 1 - n % 2 * 2]
)
STORMS = "jobs,value\n" + "".join(f"{n},{10 + 5 * n + 0.1 * k}\n" for n in (4, 8, 16, 32) for k in range(2))


@pytest.fixture(scope="module")
def published() -> jsonschema.Draft202012Validator:
    files = {file.name: json.loads(file.read_text()) for file in REFERENCE.glob("*.schema.json")}
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(document)) for name, document in files.items()
    )
    return jsonschema.Draft202012Validator(files["answer.schema.json"], registry=registry)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, recordings and files that verbs are about."""
    place = tmp_path_factory.mktemp("answers")
    costs_run(place, {"cpu_per_call": 1.5, "call_latency": 1.2})
    storms_run(place, {"rabbitmq": 0.4, "nova-api": 2.0})
    made_sample(place / "sample")
    recorded(place / "watch", 20)
    (place / "two.csv").write_text(CSV)
    (place / "storms.csv").write_text(STORMS)
    return place


@pytest.mark.parametrize(
    ("verb", "words", "code"),
    [
        ("report", "{costs}", 0),
        ("report", "{place}/sample", 0),
        ("report", "{place}/watch", 0),
        ("context", "{costs} --of {storms}", 0),
        ("advise", "{costs}", 0),
        ("compare", "{costs} {costs}", 0),
        ("stats", "{place}/two.csv", 0),
        ("stats", "{place}/storms.csv --scaling storm --at 128 --limit 330", 0),
        ("stats", "{place}/storms.csv --scaling storm --at 999", 5),
        ("sql", "{costs} 'select cell, value from metrics'", 0),
        ("list", "", 0),
        ("doctor", "", 0),
        ("destroy", "{costs}", 0),
        ("run", "noisy-neighbour --dry-run", 0),
        ("run", "noisy-neighbour --hosts a,b --dry-run", 0),
        ("ab", "--dry-run -- true --vs false", 0),
    ],
)
def test_one_form(
    verb: str,
    words: str,
    code: int,
    place: Path,
    published: jsonschema.Draft202012Validator,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = {kind: next(place.glob(f"*{kind}*")) for kind in ("costs", "storms-")}
    said = words.format(place=place, costs=runs["costs"], storms=runs["storms-"])
    assert cli.run([verb, "--json", *shlex.split(said)]) == code, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.count("\n") == 1, "a line, for what reads lines"
    document = json.loads(out)
    published.validate(document)
    assert document["verb"] == verb and document["headline"]
    assert document["verdict"] == {0: "done", 5: "undecided"}[code]
    with pytest.raises(jsonschema.ValidationError):
        published.validate({**document, "data": 5})


def test_a_dry_run_refuses_in_json_what_a_run_would(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        words = ["run", "noisy-neighbour", "--set", "placement=own-cores", "--dry-run"]
        assert [cli.run(words), cli.run([*words, "--json"])] == [2, 2]
    finally:
        os.sched_setaffinity(0, before)
    said = capsys.readouterr()
    assert said.err.count("placement own-cores needs 2 CPUs") == 2
    assert said.out == ""


def test_bad_input_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", "no-such-run", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_documents_of_version_1_are_read(tmp_path: Path) -> None:
    told = {"predicted": {}, "gate": {}, "edits": ["--jobs 3"]}
    file = tmp_path / "kept.json"
    for document in (
        {"schema_version": 1, **told},
        {"schema_version": 2, "verb": "whatif", "verdict": "done", "headline": "x", "data": told},
    ):
        file.write_text(json.dumps(document))
        assert stored(file)["edits"] == ["--jobs 3"]
        assert data_of(document)["edits"] == ["--jobs 3"]
        assert stored(file).get("predicted_jobs") == (3 if document["schema_version"] == 1 else None)
    file.write_text(json.dumps({"schema_version": 3, "data": told}))
    with pytest.raises(BadInput):
        stored(file)
