"""Mistakes in a workload file, as their author reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.errors import BadInput, UnknownName, WorkloadError
from contend.workloads.load import catalogue, load, load_file, names, schema

GOOD = """\
name: mytool
install: {apt: [mytool], command: mytool}
parameters: {size: {default: 64M, choices: [16M, 64M, 256M]}}
run: mytool --size {size} --json {out}/result.json
metrics:
  throughput:
    {from: result.json, path: $.total.mbps, unit: MB/s, better: higher}
  time: {builtin: wall, unit: s, better: lower}
dominant: memory
trial: 2s
"""


def mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> tuple[str, str]:
    """Message and hint for this content of workloads/mytool.yaml."""
    path = tmp_path / "workloads" / "mytool.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkloadError) as caught:
        load("workloads/mytool.yaml")
    assert caught.value.exit_code == 2
    return caught.value.message, caught.value.hint


GOLDEN = [
    (
        "better: higher",
        "better: more",
        "7: 'better: more' is not one of: higher, lower",
        "throughput in MB/s is usually 'higher'",
    ),
    (
        "unit: s, better: lower",
        "unit: s, better: low",
        "8: 'better: low' is not one of: higher, lower",
        "time in s is usually 'lower'",
    ),
    (
        "dominant: memory",
        "dominant: ram",
        "9: 'dominant: ram' is not one of: cpu, memory, disk, network, lock",
        "",
    ),
    ("trial: 2s", "trial: 2x", "10: '2x' is not a duration", "units are ns, us, ms, s, m, h"),
    ("trial: 2s", "trial: 0", "10: 'trial' must be longer than nothing", ""),
    (
        "dominant: memory",
        "dominnat: memory",
        "9: unknown key 'dominnat'",
        "did you mean 'dominant'?",
    ),
    ("trial: 2s", "trial: 2s\nneighbor: {}", "11: unknown key 'neighbor'", "did you mean 'neighbour'?"),
    ("builtin: wall", "builtim: wall", "8: unknown key 'builtim'", "did you mean 'builtin'?"),
    ("trial: 2s", "trial: 2s\nname: x", "11: 'name' stands here twice (first in line 1)", "keep one of them"),
    (
        "{size} --json",
        "{siez} --json",
        "4: '{siez}' is neither a parameter nor a placeholder",
        "did you mean 'size'?",
    ),
    ("run: mytool", "run: mytool '", "4: 'mytool '", "close the quote, or escape it with \\"),
    ("name: mytool", "name: My Tool", "1: 'name: My Tool' does not match ^[a-z][a-z0-9-]*$", ""),
    ("default: 64M", "default: 65M", "3: 'default: 65M' is not one of: 16M, 64M, 256M", ""),
    (
        "default: 64M",
        "default: [1]",
        "3: 'default: [1]' is not text or a whole number or a number or true or false",
        "",
    ),
    ("path: $.total.mbps", 'path: "$.total["', "7: 'path: $.total[' is not a JSONPath", "it reads like"),
    (
        "path: $.total.mbps",
        "pattern: '(a)(b)'",
        "7: 'pattern: (a)(b)' needs exactly one (group)",
        "put parentheses",
    ),
    ("path: $.total.mbps", "pattern: '('", "7: 'pattern: (' is no regular expression", ""),
    (
        "from: result.json",
        "from: /etc/passwd",
        "7: 'from: /etc/passwd' is not below the trial's directory",
        "let the tool",
    ),
    ("from: result.json", "from: 'stdout:2'", "7: 'from: stdout:2': there is no command 2 of 1 in 'run'", ""),
    (
        "run: mytool",
        "run: \tmytool\n\t",
        "4: not YAML",
        "YAML is indented with spaces; that line holds a tab",
    ),
    (
        "trial: 2s",
        "trial: 2s\nfiles: {../x: a}",
        "11: '../x' is not below {work}",
        "give a relative path without '..'",
    ),
    (
        "trial: 2s",
        "trial: 2s\nfiles: {x: {beside: y}}",
        "11: there is no 'y' beside workloads/mytool.yaml",
        "put it next",
    ),
    ("trial: 2s", "trial: 2s\n1: x", "11: a key must be text, and 1 is not", 'put it in quotes: "1"'),
    ("trial: 2s", "trial: .inf", "10: '.inf' is not a finite number", "write a finite number"),
    ("trial: 2s", "trial: !!python/name:os.system x", "10: the tag", "write the plain value"),
    ("trial: 2s", "trial: 2s\nnetwork: pair", "11: network: pair needs a server ('serve')", ""),
]


@pytest.mark.parametrize(("old", "new", "message", "hint"), GOLDEN, ids=[g[1] for g in GOLDEN])
def test_a_mistake_names_its_line_and_what_to_do(
    old: str, new: str, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert GOOD.count(old) == 1 or old.startswith("run: mytool") or old == "name: mytool"
    said, advice = mistake(tmp_path, monkeypatch, GOOD.replace(old, new, 1))
    assert said.startswith(f"workloads/mytool.yaml, line {message}"), said
    assert advice.startswith(hint), advice


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "workloads/mytool.yaml is empty"),
        (b"- a\n- b\n", "workloads/mytool.yaml is not a list of `key: value` lines"),
        (b"name: a\ntitle: caf\xe9\n", "workloads/mytool.yaml, line 2: byte 0xe9 is not UTF-8"),
        (b"\x00\x01\x02", "workloads/mytool.yaml, line 1: the character '\\x00' may not stand in YAML"),
        (os.urandom(2**20), "workloads/mytool.yaml is larger than 256 KiB"),
        (b"[" * 5000, "workloads/mytool.yaml"),
        (b"a: &a [*a]\n", "workloads/mytool.yaml, line 1: refers to itself"),
        (b"a: [1, 2\nb: {\n", "workloads/mytool.yaml, line 2: not YAML"),
        (
            b"a0: &a0 [x, x]\n"
            + b"".join(
                b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 12)
            ),
            "workloads/mytool.yaml, line",
        ),
    ],
    ids=["empty", "list", "latin-1", "binary", "random", "tower", "loop", "open", "bomb"],
)
def test_what_is_no_workload_file_at_all(
    text: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, hint = mistake(tmp_path, monkeypatch, text)
    assert said.startswith(message), said
    assert hint


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.yaml"
    os.mkfifo(fifo)
    for path, why in (
        (tmp_path, "a directory"),
        (fifo, "not a regular file"),
        (tmp_path / "no.yaml", "No such file"),
    ):
        with pytest.raises(WorkloadError, match=why) as caught:
            load_file(path)
        assert caught.value.hint


def test_the_example_itself_is_good(tmp_path: Path) -> None:
    path = tmp_path / "mytool.yaml"
    path.write_text(GOOD)
    assert load(str(path)).primary == "throughput"
    assert load(str(path)).origin == str(path)


def test_own_workloads_are_found_by_name_and_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "contend" / "workloads"
    own.mkdir(parents=True)
    (own / "mytool.yaml").write_text(GOOD)
    (own / "fio.yaml").write_text(GOOD.replace("mytool", "fio"))
    assert "mytool" in names()
    assert load("fio").origin == str(own / "fio.yaml")
    (own / "other.yaml").write_text(GOOD)
    with pytest.raises(WorkloadError, match="line 1: 'name: mytool' is not the name of the file"):
        load("other")


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        load("ffmpg")
    assert "did you mean 'ffmpeg'?" in caught.value.hint


@pytest.mark.parametrize("path", sorted(catalogue().glob("*.yaml")), ids=lambda p: p.stem)
def test_every_built_in_says_what_it_is(path: Path) -> None:
    workload = load(path.stem)
    assert workload.title
    assert workload.about
    if path.stem not in (
        "pressure-probe",
        "service",
        "process",
        *("exported-time", "exported-count", "exported-value", "logged-time", "logged-count"),
    ):  # which need nothing but contend's own Python
        assert workload.install.apt or workload.install.module
        # A note where one of several will do: then a run says what is missing.
        assert workload.install.command or workload.install.module or workload.install.note
    assert workload.neighbour.burning is not None
    assert all(p.about for p in workload.parameters.values())


def test_editors_get_a_schema() -> None:
    import jsonschema
    import yaml

    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    for path in catalogue().glob("*.yaml"):
        validator.validate(yaml.safe_load(path.read_text()))
    assert not validator.is_valid({**yaml.safe_load(GOOD), "dominant": "ram"})


def test_a_bad_input_stays_a_bad_input() -> None:
    assert issubclass(WorkloadError, BadInput)
