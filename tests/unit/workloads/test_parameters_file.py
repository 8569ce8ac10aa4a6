"""What generators are asked for: one file, with a field for each parameter of the workload, and nothing else."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import stat
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from contend.errors import BadInput
from contend.workloads import parameters_file
from contend.workloads.generators import verbs
from contend.workloads.generators.__main__ import GENERATORS
from contend.workloads.instance import resolve
from contend.workloads.load import catalogue, load
from contend.workloads.parameters_file import Placeholders, filled, read
from contend.workloads.spec import Workload

WORKLOADS = sorted(path.stem for path in catalogue().glob("*.yaml"))


@dataclass(frozen=True)
class Some:
    n: int
    rate: float
    on: bool
    kind: Literal["call", "cast"]
    text: str = ""


def calls(workload: Workload) -> list[tuple[str, str, tuple[str, ...]]]:
    """(generator, verb, what follows the file) of each command that is given the file of parameters."""
    found = []
    for command in workload.commands():
        words = shlex.split(command)
        if "{parameters}" in words:
            native, generator, verb, file, *more = words
            assert (native, file) == ("{native}", "{parameters}"), command
            found.append((generator, verb, tuple(more)))
    return found


def taken(monkeypatch: pytest.MonkeyPatch, generator: str) -> tuple[type[Any], Mapping[str, Any]]:
    """The generator's type of parameters, and its verbs."""
    seen: list[Any] = []
    for name in ("run", "interruptible"):
        monkeypatch.setattr(verbs, name, lambda _, kind, acts: seen.append((kind, acts)))
    module, _, function = GENERATORS[generator].partition(":")
    getattr(importlib.import_module(module), function)([])
    ((kind, acts),) = seen
    return kind, acts


@pytest.mark.parametrize("name", [name for name in WORKLOADS if calls(load(name))])
def test_a_generator_takes_the_parameters_of_its_workload(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = resolve(load(name), {})
    for generator, verb, more in calls(instance.workload):
        kind, acts = taken(monkeypatch, generator)
        assert verb in acts
        assert set(more) <= {"{seconds}s", "{step_seconds}s"}
        values = {"work": tmp_path, "out": tmp_path, "seconds": 2, "cpus": 1, "seed": 3, "port": 4}
        values |= {"address": "127.0.0.1", "cache": tmp_path}
        instance.write_parameters(values)
        asked, at = read(tmp_path / parameters_file.NAME, kind)
        assert {k: getattr(asked, k) for k in instance.parameters} == dict(instance.parameters)
        assert (at.work, at.out, at.seed, at.port, at.cache) == (tmp_path, tmp_path, 3, 4, tmp_path)
        # The one place of a default is the workload's file; what that file does not have, the type may.
        required = set(typing.get_type_hints(kind)) - parameters_file._defaults(kind)
        assert required <= set(instance.parameters)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if calls(load(name))])
def test_choices_of_a_type_are_those_of_the_workload(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = load(name)
    for generator, _, _ in calls(workload):
        kind, _ = taken(monkeypatch, generator)
        for field, type_ in typing.get_type_hints(kind).items():
            if choices := typing.get_args(type_):
                assert choices == tuple(workload.parameters[field].choices)


def test_every_key_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        filled(Some, {"n": "5", "on": 1, "kind": "shout", "speed": 3}, "FILE")
    assert caught.value.message == (
        "FILE: 'speed' is unknown; 'n' is \"5\", not a whole number; 'rate' is missing; 'on' is 1, not true or false;"
        " 'kind' is \"shout\", not one of: call, cast"
    )
    assert filled(Some, {"n": 5, "rate": 1, "on": True, "kind": "cast"}, "FILE") == Some(5, 1.0, True, "cast")
    with pytest.raises(BadInput, match="'n' is true"):
        filled(Some, {"n": True, "rate": 1, "on": True, "kind": "cast"}, "FILE")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parameters": {"n": 1}}'])
def test_a_file_that_is_none_is_one_clear_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "asked.json"
    file.write_text(text)
    assert verbs.run(["storm", str(file)], Some, {"storm": lambda given, at: None}) == BadInput.exit_code
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and re.match(f"error: {file}", told[0]) and told[1].startswith("  hint: ")
    assert verbs.run(["storm", "/no/such"], Some, {"storm": lambda given, at: None}) == BadInput.exit_code
    assert verbs.run(["boot", str(file)], Some, {"storm": lambda given, at: None}) == BadInput.exit_code


def test_paths_are_whole_and_the_time_is_the_command_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"n": 1, "rate": 0.5, "on": False, "kind": "call"}
    parameters_file.write(Path("asked.json"), given, Placeholders(Path("run/work/party"), Path("run/out")))
    seen: list[Placeholders] = []
    assert verbs.run(["go", "asked.json", "1.5s"], Some, {"go": lambda _, at: seen.append(at)}) == 0
    (at,) = seen
    assert (at.run, at.out, at.seconds) == (tmp_path / "run", tmp_path / "run/out", 1.5)


def test_a_secret_of_the_environment_is_its_owner_s_alone_and_in_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE", "mysql://u:s3cret@db/")
    instance = resolve(load("boot-storm"), {"database_url": "${DATABASE}"})
    values = {"work": tmp_path, "out": tmp_path, "seconds": 1, "cpus": 1, "seed": 1, "port": 0, "address": ""}
    values |= {"cache": tmp_path, "native": "native"}
    instance.write_parameters(values)
    file = tmp_path / parameters_file.NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["parameters"]["database_url"] == "mysql://u:s3cret@db/"
    assert instance.commands(values).run == (("native", "boot-storm", "storm", str(file)),)


def test_a_workload_without_the_placeholder_has_no_file(tmp_path: Path) -> None:
    resolve(load("fio"), {}).write_parameters({"out": tmp_path})
    assert list(tmp_path.iterdir()) == []
