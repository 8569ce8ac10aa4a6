"""Options that would not be heard beside others: each is refused with what to do instead."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from contend import cli
from contend.cli import config
from contend.cli.ab_ import command as ab
from contend.cli.prove_ import command as prove
from contend.errors import BadInput
from support.answers import data_in
from support.made_context import storms_run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ab -n 5 -M 10 true false", "-n says how often, and -M when to stop"),
        ("ab -n 5 --target 1% true false", "-n says how often, and --target when to stop"),
        ("ab -m 20 -M 10 true false", "-M 10 is fewer than -m 20"),
        ("ab --json --export-csv - true false", "--json and --export-csv - both write to stdout"),
        ("ab --export-json - --export-csv - true false", "both write to stdout"),
        ("fetch http://[1 -o /dev/null", "'http://[1' is no URL"),
        ("prove a --against b --cpus 2", "--cpus goes with --by quota"),
        ("prove a --against b --by nice --apart 2", "--apart goes with --by cpuset"),
        ("prove a --against b --allow-freeze", "--allow-freeze goes with --by freeze"),
        ("prove a --against b --watch 3s", "--watch finds suspects, and --against names them"),
        ("run noisy-neighbour --rate 5 -- true", "--rate 5 goes with --url"),
        ("run noisy-neighbour --url http://[1", "'http://[1' is no URL"),
        ("run noisy-neighbour --dry-run --ssh-config f", "--ssh-config goes with --hosts"),
        ("run noisy-neighbour --dry-run --address 10.0.0.1", "--address goes with --hosts"),
        ("run noisy-neighbour --dry-run --contend ./c", "--contend goes with --hosts"),
        ("validate --schema workload f.yaml", "--schema prints the schema, and looks at no FILE"),
        ("whatif t --list --jobs 5", "--list says what edits can name, and makes none"),
        ("sql . 'select 1' --json --csv", "--json and --csv are two forms"),
        ("watch -p {pid} --by vm --for 1s", "--pid {pid} is a process, and --by vm looks at others"),
        ("trace --sample-interval 3ms -- true", "--sample-interval goes with --sample"),
        ("serve . --runs other", "DIR and --runs both name what is served"),
    ],
)
def test_what_would_not_be_heard_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(shlex.split(words.format(pid=os.getpid()))) == 2
    text = capsys.readouterr().err
    assert message.format(pid=os.getpid()) in text, text
    assert "hint: " in text
    assert not any(tmp_path.iterdir()), "nothing is left behind"


def test_of_storms_without_traces_nothing_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(storms_run(tmp_path, {"rabbitmq": 0.4}).path)
    for more in (["--job", "x*"], ["--cell", "y"]):
        assert cli.run(["whatif", run, "--jobs", "5", *more]) == 2
        assert "--job and --cell choose among what is traced" in capsys.readouterr().err


def test_fewer_blocks_at_most_are_fewer_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["ab", "-n", "6", "--target", "none", "--dry-run", "true", "false"]) == 0
    capsys.readouterr()
    assert cli.run(["ab", "-M", "6", "--dry-run", "--json", "true", "false"]) == 0
    plan = data_in(capsys.readouterr().out)
    assert {block for _, block, kind, *_ in plan["trials"] if kind == "counted"} == set(range(6))


def test_an_export_on_stdout_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["ab", "-n", "3", "--warmup", "0", "--export-json", "-", "true", "sleep 0.01"]) == 0
    out, err = capsys.readouterr()
    assert [result["command"] for result in json.loads(out)["results"]] == ["true", "sleep 0.01"]
    assert "report.html" in err


def test_an_option_of_a_verbs_name_in_the_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "contend").mkdir()
    (tmp_path / "contend/config.toml").write_text('watch = "30s"\n')
    verbs = {"prove": "", "watch": "", "ab": ""}
    assert config.defaults("prove", prove, verbs)["watched"] == "30s"
    assert config.defaults("ab", ab, verbs) == {}
    (tmp_path / "contend/config.toml").write_text("[ab]\nwatch = 3\n")
    with pytest.raises(BadInput, match="has no option 'watch'"):
        config.defaults("ab", ab, verbs)
