"""Scenario files: what is refused, and how it is said."""

# ruff: noqa: E501 - a table of messages reads best on one line each

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import jsonschema
import pytest

from contend.cli import list_
from contend.errors import BadInput, ScenarioError, UnknownName
from contend.scenario.yaml_file import read_yaml
from contend.studies import registry, scenarios
from contend.studies.interference.model import Interference
from contend.studies.scenarios import builtin_names, find, json_schema, load, parse, to_yaml

MINIMAL = "study: interference\nvictims: [ffmpeg]\nneighbours: [stress-cpu]\n"


def parsed(text: str, *settings: str) -> Interference:
    scenario = parse(read_yaml(text, "mine.yaml", ScenarioError), settings)
    assert isinstance(scenario, Interference)
    return scenario


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_reads_back_from_what_a_run_keeps(name: str) -> None:
    scenario = load(name)
    again = parse(read_yaml(to_yaml(scenario), "scenario.yaml", ScenarioError))
    assert again == scenario.model_copy(update={"origin": again.origin})
    jsonschema.validate(read_yaml(find(name), name).data, json_schema())


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("study: interference\nvictims: [a]\nneighbours: [b]\nplacment: same-cpu\n", "mine.yaml, line 4: unknown key 'placment'", "did you mean 'placement'?"),
        ("study: interference\nvictims: [a]\nneighbours: [b]\nmeasure: {orderr: AAABBB}\n", "mine.yaml, line 4: unknown key 'orderr'", ""),
        ("study: interference\nneighbours: [b]\nvictms: [a]\n", "mine.yaml, line 3: unknown key 'victms'", "did you mean 'victims'?"),
        ("study: interfernce\n", "mine.yaml: unknown study 'interfernce'", "did you mean 'interference'?"),
        ("victims: [a]\n", "mine.yaml: the key 'study' is missing", "known: compare, growth, interference"),
        ("", "mine.yaml: the key 'study' is missing", ""),
        (MINIMAL + "measure: {target: 2x}\n", "mine.yaml, line 4: '2x' is not a percentage", "write it like 2% or 0.02"),
        (MINIMAL + "measure: {budget: soon}\n", "mine.yaml, line 4: 'soon' is not a duration", "write it like 500ms, 2s or 5m"),
        (MINIMAL + "placement: moon\n", "mine.yaml, line 4: 'placement: moon' is not one of: same-cpu, own-cores, same-host", ""),
        (MINIMAL + "platform: {kind: bare, cpus: 1}\n", "bare has no size", ""),
        ("study: interference\nvictims: []\nneighbours: [b]\n", "mine.yaml, line 2", ""),
        ("study: compare\nvariants: [{name: A, command: x}, {name: A, command: y}]\n", "two variants have the same name", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_the_next_action(text: str, message: str, hint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parsed(text)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("written", "include"),
    [
        ("true", ()),
        ("'app.*'", ("app.*",)),
        ("[a, b]", ("a", "b")),
        ("{include: a, exclude: [b]}", ("a",)),
        ("false", None),
    ],
)
def test_traces_are_asked_for_in_several_ways(written: str, include: tuple[str, ...] | None) -> None:
    asked = parsed(MINIMAL + f"trace: {written}\n")
    assert (None if asked.trace is None else asked.trace.include) == include
    assert parsed(to_yaml(asked)).trace == asked.trace, "what the run keeps reads back"


@pytest.mark.parametrize("lasting", ["1.123456789s", "90m", "2s"])
def test_every_duration_reads_back_from_what_a_run_keeps(lasting: str) -> None:
    asked = parsed(
        MINIMAL
        + f"guard: {{slower_than: 300ms, every: 250ms, lasting: {lasting}}}\nmeasure: {{budget: 90s}}\n"
    )
    again = parsed(to_yaml(asked))
    assert (again.guard, again.measure) == (asked.guard, asked.measure), "a bare number would be seconds"
    assert "slower_than: 0.3s" in to_yaml(asked) and "budget: 90s" in to_yaml(asked)


def test_traces_of_what_runs_in_a_container_are_refused() -> None:
    with pytest.raises(ScenarioError, match="trace needs the bare platform"):
        parsed(MINIMAL + "trace: true\nplatform: container\n")


def test_block_order_has_no_key() -> None:
    for key in ("order", "randomise", "randomize", "shuffle", "sequential"):
        with pytest.raises(ScenarioError, match="unknown key"):
            parsed(MINIMAL + f"measure: {{{key}: false}}\n")


def test_set_reaches_into_lists_by_name_and_leaves_the_file_alone() -> None:
    text = "study: interference\nvictims: [ffmpeg]\nneighbours: [stress-cpu, {fio: {read: 0}}]\n"
    scenario = parsed(
        text,
        "neighbours.fio.limit.iops=40000",
        "neighbours.fio.depth=4",
        "measure.blocks=7",
        "victims=fio, nginx",
    )
    assert scenario.neighbours[1].limit.iops == 40000
    assert scenario.neighbours[1].parameters == {"read": 0, "depth": 4}
    assert scenario.measure.blocks == 7
    assert [v.workload for v in scenario.victims] == ["fio", "nginx"]
    assert parsed(text).measure.blocks == 15


@pytest.mark.parametrize(
    "setting",
    [
        "placement",
        "=x",
        "a..b=1",
        "neighbours.nope.depth=1",
        "neighbours.stress-cpu=1",
        "title.deeper=1",
        "a=[1",
    ],
)
def test_a_wrong_set_is_bad_input(setting: str) -> None:
    with pytest.raises(BadInput) as caught:
        parsed(MINIMAL + "title: x\n", setting)
    assert caught.value.hint


def test_things_that_are_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a directory"):
        load(str(tmp_path))
    with pytest.raises(ScenarioError, match="there is no file"):
        load(str(tmp_path / "absent.yaml"))
    with pytest.raises(UnknownName) as caught:
        load("noisy-neigbour")
    assert "noisy-neighbour" in caught.value.hint
    garbage = tmp_path / "garbage.yaml"
    garbage.write_bytes(bytes(range(256)) * 4096)
    with pytest.raises(ScenarioError) as garbled:
        load(str(garbage))
    assert garbled.value.hint


def test_a_setting_by_name_is_of_every_workload_of_that_name() -> None:
    from contend.studies.overhead.model import Overhead

    asked = load("platform-network", ("apps.http.rate=100",))
    assert isinstance(asked, Overhead)
    rates = [ref.parameters.get("rate") for ref in asked.apps if ref.workload == "http"]
    assert rates == [100, 100], "over loopback and over a pair: else they would not be comparable"
    one = load("platform-network", ("apps.3.rate=100",))
    assert isinstance(one, Overhead)
    assert [ref.parameters.get("rate") for ref in one.apps] == [None, None, None, 100]
    listed = load("platform-overhead", ("apps=http, iperf3", "apps.http.rate=100"))
    assert isinstance(listed, Overhead)
    assert [dict(ref.parameters) for ref in listed.apps] == [{"rate": 100}, {}]


def test_a_study_of_another_package_brings_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "brings"
    (package / "scenarios").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('nothing of it is run to find its scenarios')")
    for name in ("apps", "of-its-own"):
        (package / "scenarios" / f"{name}.yaml").write_text("study: nowhere\ntitle: Does it?\n")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("nowhere", "brings.study:STUDY", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "_elsewhere", lambda: (point,))
    scenarios._brought.cache_clear()
    try:
        assert find("of-its-own") == package / "scenarios/of-its-own.yaml"
        assert "of-its-own" in builtin_names()
        assert find("apps").parent.parent.name == "interference"  # a name of ours stays ours
        told = list_._entries("scenarios")["of-its-own"]
        assert told.startswith("cannot be run: the study 'nowhere' of the package")
    finally:
        scenarios._brought.cache_clear()
