"""Parameters decided, commands filled."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contend.errors import ContendError, UnknownName, WorkloadError
from contend.workloads.instance import Instance, repeated, resolve
from contend.workloads.load import load
from contend.workloads.spec import Workload

VALUES = {"work": "/w", "out": "/o p", "seconds": "1", "cpus": 2, "cpu_list": "0-1", "port": 8080, "seed": 7}
VALUES |= {"address": "127.0.0.1", "native": "/usr/bin/python3\0-m\0generators"}


def workload(**changes: Any) -> Workload:
    given_: dict[str, Any] = {
        "name": "tool",
        "run": "tool {word} {{literal}} --out {out}/r",
        "metrics": {"wall": {"builtin": "wall", "unit": "s", "better": "lower"}},
        "dominant": "cpu",
        "trial": "1s",
        "parameters": {
            "word": {"default": "a"},
            "count": {"default": 4, "min": 1, "max": 8},
            "share": {"default": 0.5},
            "flag": {"default": False},
            "workers": {"default": "{cpus}", "min": 1},
        },
    }
    return Workload.model_validate(given_ | changes)


def test_the_label_names_only_what_differs_from_the_defaults() -> None:
    assert resolve(load("fio"), {}).label == "fio"
    assert resolve(load("fio"), {"read": 100}).label == "fio"
    assert resolve(load("fio"), {"read": "0", "block": "64k"}).label == "fio writes[block=64k]"


def test_what_is_preferred_and_installed_is_taken_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = workload(parameters={"loader": {"default": "ab", "prefer": "no-such-loader"}}, run="tool {loader}")
    assert resolve(tool, {}).label == "tool"
    (tmp_path / "no-such-loader").write_text("#!/bin/sh\n")
    (tmp_path / "no-such-loader").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert resolve(tool, {}).label == "tool[loader=no-such-loader]"
    assert resolve(tool, {"loader": "ab"}).label == "tool"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "8", 8),
        ("share", "1", 1.0),
        ("flag", "yes", True),
        ("flag", "off", False),
        ("word", 3, "3"),
        ("workers", "2", 2),
    ],
)
def test_text_takes_the_type_of_the_default(name: str, text: str, value: object) -> None:
    got = resolve(workload(), {name: text}).parameters[name]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", "many", "tool: 'count: many' is not a whole number"),
        ("count", "2.5", "tool: 'count: 2.5' is not a whole number"),
        ("count", 9, "tool: 'count: 9' is above 8"),
        ("count", "0", "tool: 'count: 0' is below 1"),
        ("count", True, "tool: 'count: true' is not a whole number"),
        ("share", "nan", "tool: 'share: nan' is not a number"),
        ("flag", "maybe", "tool: 'flag: maybe' is not true or false"),
        ("workers", "0", "tool: 'workers: 0' is below 1"),
        ("workers", "some", "tool: 'workers: some' is not a whole number"),
        ("word", "a\0b", "tool: 'word' holds a NUL character"),
    ],
)
def test_a_value_that_is_not_allowed(name: str, value: Any, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        resolve(workload(), {name: value})
    assert caught.value.message == message
    assert caught.value.hint.startswith("the default is ")


def test_an_unknown_parameter_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        resolve(load("fio"), {"patern": "rw"})
    assert caught.value.message == "fio has no parameter 'patern'"
    assert caught.value.hint == "did you mean 'pattern'?"


def test_a_value_with_spaces_stays_one_argument() -> None:
    commands = resolve(workload(), {"word": "x; rm -rf / $(id)"}).commands(VALUES)
    assert commands.run == (("tool", "x; rm -rf / $(id)", "{literal}", "--out", "/o p/r"),)


def test_a_default_follows_its_placeholder_and_can_be_overridden() -> None:
    tool = workload(run="tool -j {workers}")
    assert resolve(tool, {}).commands(VALUES).run == (("tool", "-j", "2"),)
    assert resolve(tool, {"workers": "6"}).commands(VALUES).run == (("tool", "-j", "6"),)
    assert resolve(tool, {}).label == "tool"


def test_steps_share_the_trial() -> None:
    tool = workload(run=["a {step_seconds} {step_ms}", "b {step_whole_seconds} {seconds}"])
    assert resolve(tool, {}).commands({**VALUES, "seconds": 3}).run == (("a", "1.5", "1500"), ("b", "2", "3"))


def test_a_missing_value_is_an_error_that_says_what_it_is() -> None:
    with pytest.raises(WorkloadError, match=r"no value for \{out\}") as caught:
        resolve(workload(), {}).commands({"cpus": 1})
    assert "directory of this trial" in caught.value.hint


def test_a_neighbour_of_several_steps_is_repeated_until_one_fails(tmp_path: Path) -> None:
    log = tmp_path / "a log"
    count = ("sh", "-c", 'echo x >>"$1"; test "$(wc -l <"$1")" -lt 3', "count", str(log))
    done = subprocess.run(repeated((("true",), count)), timeout=20)
    assert done.returncode == 0  # of the loop: its condition failed
    assert log.read_text() == "x\nx\nx\n"


def test_contends_own_generator_is_several_arguments() -> None:
    assert resolve(workload(run="{native} pace http://x"), {}).commands(VALUES).run[0][:3] == (
        "/usr/bin/python3",
        "-m",
        "generators",
    )


def test_files_are_written_with_what_lasts_the_whole_run(tmp_path: Path) -> None:
    files = {"etc/tool.conf": "threads @workers@ in @work@ {braces} @unknown@ me@example.org"}
    resolve(workload(files=files), {}).write_files(tmp_path, VALUES)
    assert (tmp_path / "etc/tool.conf").read_text() == "threads 2 in /w {braces} @unknown@ me@example.org"
    with pytest.raises(WorkloadError, match="@out@, which changes with every trial"):
        resolve(workload(files={"x": "@out@"}), {}).write_files(tmp_path, VALUES)


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_a_plain_error(text: str) -> None:
    tool = workload()
    for name in tool.parameters:
        try:
            instance: Instance = resolve(tool, {name: text})
        except ContendError as error:
            assert error.hint
            continue
        argv = instance.commands(VALUES).run[0]
        assert len(argv) == 5
        assert shlex.split(shlex.join(argv)) == list(argv)
