"""The README's commands, run. What takes minutes there is cut short here; nothing else is changed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from support.command_line import Home
from support.foreign_files import fio, write
from support.made_context import costs_run, storms_run

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", README, re.S | re.M)
    if not language
    for line in block.splitlines()
    if line.startswith("contend ")
]
# Commands of a reader's own project: their options are checked by reading them, their programs are not ours.
NOT_OURS = ("./bench", "mysvc")


def asks_a_cloud(words: list[str]) -> bool:
    return (
        bool({"boot-storm", "control-plane-growth", "image-download-glance"}.intersection(words))
        and "local" not in words
    )


def cut_short(words: list[str]) -> list[str]:
    if asks_a_cloud(words) and os.environ.get("OS_CLOUD"):
        few: tuple[str, ...] = ("n=[1]", "measure.blocks=1", "measure.target=null", "parameters.quiet=1")
        if "control-plane-growth" in words:
            few = ("kinds=[network]", "parameters.upto=12", "parameters.step=4", "parameters.rounds=2")
        if "image-download-glance" in words:
            few = ("parameters.size=4M", "measure.blocks=1", "measure.pilot=0")
        return [*words, *(word for setting in few for word in ("--set", setting))]
    if words[0] == "run":
        return [*words, "--dry-run"]
    if words[0] == "ab":
        return ["ab", "--target", "none", "--blocks", "6", *words[1:]]
    if words[0] == "watch":
        return [*("2s" if word == "30s" else word for word in words), "-i", "200ms"]
    return words


def test_there_is_a_command_for_each_question() -> None:
    verbs = {shlex.split(command)[1] for command in COMMANDS}
    assert verbs >= {"run", "ab", "compare", "stats", "sql", "export"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_works(command: str, contend: Home, shared_run: tuple[Home, Path]) -> None:
    _, run = shared_run
    (contend.path / "measurements.csv").write_text(
        "block,cell,value\n"
        + "".join(f"{b},{c},{v + b / 100}\n" for b in range(12) for c, v in (("old", 1.0), ("new", 1.2)))
    )
    for number in range(1, 4):  # what another tool made
        write(contend.path / f"fio-{number}.json", fio(1000.0 + number))
    if command.startswith("contend context "):  # runs of minutes, made up
        made = {
            "runs/RPC": costs_run(contend.path, {"ends_cpu": 0.9, "broker_cpu": 1.0}),
            "runs/STORM": storms_run(contend.path, {"API": 0.5, "broker": 0.05}),
        }
        command = " ".join(str(made[word].path) if word in made else word for word in command.split())
    words = [re.sub(r"^runs/[A-Z]+$", str(run), word) for word in shlex.split(command)[1:]]
    if "--rev" in words:
        for line in ("init -q -b main", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m first"):
            subprocess.run(["git", *line.split()], cwd=contend.path, check=True)
    if "mycloud" in words:  # the reader's: tests/accept/test_placement_cloud.py runs such a command on one
        contend(*words, cwd=contend.path).error(2, "no cloud is called 'mycloud'")
        return
    if asks_a_cloud(words) and not os.environ.get("OS_CLOUD"):
        # It is run where there is a cloud; elsewhere it has to come as far as looking for one.
        contend(*words, cwd=contend.path).error(2, "no cloud was named")
        return
    if words[0] == "fetch":  # an image that the reader's cloud has
        looked_for = "debian-13" if os.environ.get("OS_CLOUD") else "no cloud was named"
        contend(*words, cwd=contend.path).error(2, looked_for)
        return
    if words[0] == "serve":  # which would go on until it is interrupted
        contend.runs.mkdir()
        with contend.start(*words, "--listen", "127.0.0.1:0") as process:
            assert "serving" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        return
    if any(theirs in command for theirs in NOT_OURS):
        words = [*words[:1], "--dry-run", *words[1:]]
        contend(*words, cwd=contend.path).fine()
        return
    # Whether this host's neighbours cost somebody 20 % is the host's affair. The same run twice: whether it changed by
    # 5 % is decided, or the intervals of a run of a moment are too wide.
    codes = {"compare": (0, 5), "watch": (0, 4, 5)}.get(words[0], (0,))
    said = contend(*cut_short(words), cwd=contend.path, timeout=180).no_traceback()
    assert said.code in codes, said
    assert said.out.strip(), said


def test_every_link_of_the_readme_leads_somewhere() -> None:
    root = Path(__file__).parents[2]
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 8
    for link in links:
        assert link.startswith("http") or (root / link).exists(), link
