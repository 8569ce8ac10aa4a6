"""A command of the user's as the victim, and as the neighbour, of real runs."""

from __future__ import annotations

import csv
import json

import pytest
import yaml

from support.command_line import Home, rows

pytestmark = pytest.mark.system

LOOP = '#!/bin/sh\necho working >>was-here\ni=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo "speed: $i per sec"\n'
FEW = ("--set", "measure.blocks=6", "--set", "measure.target=null", "--set", "measure.pilot=1")


@pytest.fixture
def mine(contend: Home) -> Home:
    """A program, and another, in the directory where contend is started."""
    for name in ("mine", "other"):
        (contend.path / name).write_text(LOOP)
        (contend.path / name).chmod(0o755)
    return contend


def test_it_is_measured_beside_another_of_theirs(mine: Home) -> None:
    said = mine("run", "noisy-neighbour", *FEW, "--beside", "./other --loop", "--", "./mine", "--flag").fine()
    run = mine.the_run()
    done = rows(run)
    assert {row["status"] for row in done} == {"ok"}
    assert {row["cell"] for row in done} == {"mine|none", "mine|none (control)", "mine|other"}
    assert "mine" in said.out and "beside other" in said.out
    assert (mine.path / "was-here").exists()  # it ran where it was typed
    kept = yaml.safe_load((run / "scenario.yaml").read_text())
    assert kept["victims"] == [
        {"command": {"run": "./mine --flag", "name": "mine", "directory": str(mine.path)}}
    ]


def test_the_command_of_its_findings_can_be_pasted(mine: Home) -> None:
    mine("run", "noisy-neighbour", *FEW, "--beside", "./other", "--command", "./mine --flag").fine()
    run = mine.the_run()
    repeat = json.loads((run / "plan.json").read_text())["command"]
    found = json.loads((run / "findings.json").read_text())["findings"]
    for command in (repeat, *(finding["verify"] for finding in found if finding["verify"])):
        assert "mine" in mine.pasted(f"{command} --dry-run").fine().out


def test_a_figure_of_its_own_is_the_headline(mine: Home) -> None:
    metric = "speed:1/s:higher=speed: ([0-9]+)"
    mine("run", "noisy-neighbour", *FEW, "--metric", metric, "--beside", "./other", "--", "./mine").fine()
    assert {m["name"] for row in rows(mine.the_run()) for m in row["metrics"]} == {"speed"}


def test_a_neighbour_that_idles_is_none(mine: Home) -> None:
    said = mine("run", "noisy-neighbour", *FEW, "--beside", "sleep 1", "--", "./mine", timeout=180)
    said.error(1, "neighbour sleep ", "burn")  # it starts again each second, which costs a little


def test_a_program_that_a_container_does_not_see_is_named(
    mine: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = tmp_path_factory.mktemp("elsewhere") / "mine"
    program.write_text(LOOP)
    program.chmod(0o755)
    settings = ("--set", "sizes=1", "--set", "measure.pilot=0", *FEW[:4])
    said = mine("run", "platform-overhead", *settings, "--", str(program), timeout=180)
    assert f"a container does not see {program}" in said.err and "cd there" in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "noisy-neighbour", "--"], "nothing follows --"),
        (["run", "noisy-neighbour", "--", "./absent"], "there is no program './absent'"),
        (["run", "noisy-neighbour", "--beside", "fio"], "--beside goes with a command of yours"),
        (["run", "./mine"], "'./mine' is a program, not a scenario"),
        (["run", "boot-storm", "--", "./mine"], "measures no command of yours"),
        (["run", "noisy-neighbour", "--url", "http://127.0.0.1:1", "--", "./mine"], "each name the victim"),
        (["run", "noisy-neighbour", "--beside", "fioo", "--", "./mine"], "no workload is called 'fioo'"),
        (["init"], "no command was given"),
        (["init", "--", "./absent"], "there is no program './absent'"),
    ],
)
def test_mistakes_make_nothing(mine: Home, words: list[str], says: str) -> None:
    mine(*words).error(2, says)
    assert mine.run_directories() == []


def test_a_workload_is_written_from_it(mine: Home) -> None:
    said = mine("init", "--", "./mine", "--flag").fine()
    assert "speed" in said.out
    kept = yaml.safe_load((mine.workloads / "mine.yaml").read_text())
    assert next(iter(kept["metrics"])) == "speed"
    mine("init", "--", "./mine").error(2, "exists already")
    mine("run", "noisy-neighbour", *FEW, "--set", "victims=mine", "--set", "neighbours=burner").fine()
    assert rows(mine.the_run())[0]["metrics"][0]["name"] == "speed"
    failing = mine("init", "--", "sh", "-c", "echo no >&2; exit 3")
    failing.error(1, "exit status 3", "no")


def test_results_are_exported_as_hyperfine_does(mine: Home) -> None:
    names = {form: mine.path / f"both.{form}" for form in ("json", "markdown", "csv")}
    exports = [word for form, path in names.items() for word in (f"--export-{form}", str(path))]
    said = mine("ab", "-q", "-n", "6", "-w", "0", *exports, "./mine a", "./mine b").fine()
    assert len(said.out.splitlines()) == 1
    found = json.loads(names["json"].read_text())["results"]
    assert [len(of["times"]) for of in found] == [6, 6]
    assert "`./mine b`" in names["markdown"].read_text()
    lines = list(csv.DictReader(names["csv"].read_text().splitlines()))
    assert [line["command"] for line in lines] == ["./mine a", "./mine b"]
    assert all(float(line["user"]) + float(line["system"]) > 0 for line in lines)
