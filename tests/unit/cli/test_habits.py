"""What users of other tools type: their verbs, options, defaults and short forms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend import cli
from contend.cli import questions
from contend.cli.ab_ import scenario_of
from contend.cli.own_command import settings
from contend.cli.sample_ import _as_vmstat
from contend.errors import BadInput, ScenarioError
from contend.studies.interference.model import Interference
from contend.studies.model import WorkloadRef
from contend.studies.overhead.model import Overhead
from contend.studies.scenarios import dump, load
from contend.studies.sensitivity.model import Sensitivity

OPTIONS = {
    "prepare": "", "stop": "", "metrics": (), "revs": (), "build": "", "names": (), "shell": False, "randomise": None,
    "instructions": False, "target": "2%", "blocks": 15, "most": 60, "budget": None, "timeout": "1h", "count": None,
    "warmup": None,
}  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.run(list(words))
    out, err = capsys.readouterr()
    return code, out + err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["bench"], "contend ab:"),
        (["top"], "contend watch:"),
        (["profile"], "contend trace:"),
        (["diff"], "contend compare:"),
        (["ab", "--iterations", "3"], "'--blocks'"),
        (["watch", "--duration", "3s"], "'--for'"),
        (["run", "noisy-neighbour", "--neighbors", "fio"], "'--beside'"),
        (["sample", "--process", "1"], "'--pid'"),
        (["run", "noisy-neighbour", "./mine", "--flag"], "-- ./mine --flag"),
        (["vmstat"], "contend sample:"),
        (["stop"], "contend fleet:"),
        (["destory"], "'destroy'"),
        (["desk"], "known: ab"),  # nobody is led to remove things
        (["sample", "-o", "-", "--", "true"], "--json"),
        (["watch", "-o", "-", "--for", "1s"], "--json"),
    ],
)
def test_what_is_meant_is_suggested(capsys: pytest.CaptureFixture[str], words: list[str], hint: str) -> None:
    code, text = said(capsys, *words)
    assert code == 2
    assert hint in text.partition("hint: ")[2], text


def test_help_and_version_are_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "help", "ab")[1] == said(capsys, "ab", "--help")[1]
    assert said(capsys, "version")[1] == said(capsys, "--version")[1]


def test_no_color_may_stand_behind_the_verb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert said(capsys, "list", "studies", "--no-color")[0] == 0
    assert os.environ["NO_COLOR"] == "1"


def test_commands_as_hyperfine_takes_them() -> None:
    two = scenario_of(("sleep 0.1", "sleep 0.2"), seed=1, **OPTIONS)
    assert [v.command for v in two.variants] == ["sleep 0.1", "sleep 0.2"]
    three = scenario_of(("sleep 1", "sleep 2", "sleep 3"), seed=1, **OPTIONS | {"count": 4, "warmup": 0})
    assert [v.name for v in three.variants] == ["A", "B", "C"]
    assert (three.measure.blocks, three.measure.most, three.measure.target, three.measure.pilot) == (
        4,
        4,
        None,
        0,
    )
    with pytest.raises(BadInput, match="two commands"):
        scenario_of(("gzip", "-9", "file"), seed=1, **OPTIONS)
    split = scenario_of(("gzip", "-9", "--vs", "zstd", "-19"), seed=1, **OPTIONS)
    assert [v.command for v in split.variants] == ["gzip -9", "zstd -19"]


def test_numbers_for_a_command_are_vmstats() -> None:
    assert _as_vmstat(None, None, ("2", "30")) == ("2s", "60s", ())
    assert _as_vmstat(None, "1m", ("5",)) == ("5s", "1m", ())
    assert _as_vmstat(None, None, ("sleep", "5")) == ("1s", None, ("sleep", "5"))
    assert _as_vmstat("3s", None, ("sleep", "5")) == ("3s", None, ("sleep", "5"))


@pytest.mark.parametrize("words", [("-i", "100ms", "1"), ("-i", "1s", "1", "30"), ("--for", "5s", "1", "30")])
def test_a_time_is_not_said_twice(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert cli.run(["sample", *words]) == 2
    assert f"error: {words[0]} and '{' '.join(words[2:])}' say the same twice" in capsys.readouterr().err


# Defaults


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "contend").mkdir()
    return tmp_path / "contend" / "config.toml"


def test_defaults_stand_in_a_file(config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config.write_text(f'runs = "{tmp_path}/mine"\n[ab]\ntarget = "none"\nblocks = 7\n')
    code, text = said(capsys, "serve")
    assert (code, f"{tmp_path}/mine" in text) == (2, True)
    assert "1 % " not in said(capsys, "ab", "--dry-run", "true", "true")[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[abb]\n", ("[abb] is no verb", "did you mean 'ab'?")),
        ('[ab]\ntraget = "1%"\n', ("[ab] has no option 'traget'", "did you mean 'target'?")),
        ("[ab\n", ("config.toml", "it is TOML")),
    ],
)
def test_a_mistake_in_it_is_named(
    config: Path, capsys: pytest.CaptureFixture[str], text: str, words: tuple[str, ...]
) -> None:
    config.write_text(text)
    code, out = said(capsys, "ab", "true", "true", "--dry-run")
    assert code == 2
    assert all(word in out for word in words), out


def test_defaults_stand_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEND_SERVE_LISTEN", "nowhere")
    assert "nowhere" in said(capsys, "serve", ".")[1]


# Questions


def test_questions_run_what_they_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["2", "./mine --flag"])
    monkeypatch.setattr(questions.click, "prompt", lambda *_, **__: next(answers))
    ran: list[list[str]] = []
    assert questions.ask(lambda words: ran.append(words) or 0) == 0
    assert ran == [["run", "noisy-neighbour", "--", "./mine", "--flag"]]
    assert "$ contend run noisy-neighbour -- ./mine --flag" in capsys.readouterr().out


# A command of one's own


def own(scenario: str, *beside: str, command: str = "./mine --flag", metrics: tuple[str, ...] = ()) -> object:
    return load(scenario, settings(scenario, command, beside, metrics))


def test_a_command_is_the_victim() -> None:
    scenario = own("noisy-neighbour")
    assert isinstance(scenario, Interference)
    (victim,) = scenario.victims
    assert victim.command is not None
    assert (victim.workload, victim.command.run, victim.command.directory) == (
        "mine",
        "./mine --flag",
        str(Path.cwd()),
    )
    assert [ref.workload for ref in scenario.neighbours] == ["stress-cpu", "fio"]


def test_who_is_beside_it_is_a_workload_or_a_command() -> None:
    scenario = own("noisy-neighbour", "fio,stress-memory", "{fio: {read: 0}}", "./other -x", "true")
    assert isinstance(scenario, Interference)
    fio, memory, writes, other, true = scenario.neighbours
    assert (fio.workload, memory.workload, dict(writes.parameters)) == ("fio", "stress-memory", {"read": 0})
    assert other.command is not None and true.command is not None
    assert (other.command.run, true.command.run) == ("./other -x", "true")


def test_names_tell_commands_and_workloads_apart() -> None:
    scenario = own("noisy-neighbour", "fio", "./mine --other", "/opt/ffmpeg/ffmpeg -x", command="./mine")
    assert isinstance(scenario, Interference)
    assert [ref.workload for ref in (*scenario.victims, *scenario.neighbours)] == [
        "mine", "fio", "mine-2", "my-ffmpeg",
    ]  # fmt: skip
    same = {
        "study": "interference",
        "victims": [{"command": "./a"}, {"command": "./a -x"}],
        "neighbours": ["fio"],
    }
    with pytest.raises(ValueError, match="two commands are called 'a'"):
        Interference.model_validate(same)


def test_other_studies_take_one() -> None:
    apps, overhead, forecast = (
        own("apps"),
        own("platform-overhead"),
        own("interference-forecast", "nginx,redis"),
    )
    assert (
        isinstance(apps, Interference)
        and isinstance(overhead, Overhead)
        and isinstance(forecast, Sensitivity)
    )
    assert [ref.workload for ref in apps.victims] == ["mine"]
    assert (apps.copies, apps.mixes) == ((2, 4), ())
    assert [ref.workload for ref in overhead.apps] == ["mine"]
    assert [ref.workload for ref in forecast.workloads] == ["mine", "nginx", "redis"]
    with pytest.raises(BadInput, match="measures no command of yours"):
        own("storage-sweep")
    with pytest.raises(BadInput, match="nothing beside it"):
        own("platform-overhead", "fio")


def test_an_app_is_one_of_the_apps() -> None:
    scenario = load("platform-overhead", ("app=./mine --flag", "directory=/srv"))
    assert isinstance(scenario, Overhead)
    (app,) = scenario.apps
    assert app.command is not None
    assert (app.workload, app.command.run, app.command.directory) == ("mine", "./mine --flag", "/srv")


def test_it_is_written_and_read_back() -> None:
    scenario = own("noisy-neighbour", "./other", metrics=("rps:1/s:higher=Requests/sec: +([0-9.]+)",))
    assert isinstance(scenario, Interference)
    again = Interference.model_validate(dump(scenario))
    assert again.victims == scenario.victims and again.neighbours == scenario.neighbours
    assert again.victims[0].command is not None and "rps" in again.victims[0].command.metrics


@pytest.mark.parametrize("command", ["", "'", {"run": "a", "nmae": "b"}])
def test_a_mistake_in_a_command_is_one(command: object) -> None:
    with pytest.raises(ValueError):
        WorkloadRef.model_validate({"command": command})


def test_a_limit_by_its_name() -> None:
    scenario = load(
        "noisy-neighbour",
        (*settings("noisy-neighbour", "./mine", ["./other"], ()), "neighbours.other.limit.cpus=0.5"),
    )
    assert isinstance(scenario, Interference)
    assert scenario.neighbours[0].limit.cpus == 0.5
    with pytest.raises(ScenarioError, match="no 'ohter' in that list"):
        load(
            "noisy-neighbour",
            (*settings("noisy-neighbour", "./mine", ["./other"], ()), "neighbours.ohter.limit.cpus=1"),
        )
