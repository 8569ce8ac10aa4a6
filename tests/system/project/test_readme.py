"""The commands of the pages a newcomer reads, run. What takes minutes is cut short, or only planned; else they are as they
stand there."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.command_line import Home, rows
from support.foreign_files import fio, write
from support.made_context import costs_run, storms_run

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / page for page in ("README.md", "docs/tutorial.md", "docs/guides/questions.md")]
COMMANDS = list(
    dict.fromkeys(
        line
        for page in PAGES
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
        if not language
        for line in block.splitlines()
        if line.startswith("contend ")
    )
)
# Whose cells take minutes: planned here, and run for real, small, by the tests that are named.
ONLY_PLANNED = {  # a word of that test's scenario beside it
    "apps": ("accept/test_apps.py", '"run", "apps"'),
    "boot-storm": ("system/studies/test_boot_storm_local.py", '"run", "boot-storm"'),
    "image-download": ("system/studies/test_image_download.py", '"workload": "image-download"'),
    "interference-forecast": ("system/studies/test_forecast_run.py", "study: sensitivity"),
    "network-placement": ("system/studies/test_network_placement.py", '"run", "network-placement"'),
    "noisy-neighbour": ("system/cli/test_cli_run.py", "contend.scenario("),
    "platform-network": ("system/studies/test_network_platforms.py", '"run", "platform-network"'),
    "platform-overhead": ("system/studies/test_overhead.py", '"run", "platform-overhead"'),
    "rpc-broker": ("system/workloads/test_rpc_study.py", 'study(contend, "rpc'),
    "rpc-envelope": ("system/workloads/test_rpc_study.py", 'study(contend, "rpc'),
    "rpc-failures": ("system/workloads/test_rpc_failures.py", "workload: rpc-failures"),
    "storage-sweep": ("system/studies/test_storage_sweep_real.py", '"run", "storage-sweep"'),
    "storm-lab": (
        "contract/workloads/test_workloads.py",
        'catalogue().glob("*.yaml")',
    ),  # its one workload, with every other
}
# A reader's own project, as its commands take it to be.
BENCH = '#!/bin/sh\ni=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo "bench $*" >>"$PROJECT/called"\n'
SYSTEMCTL = '#!/bin/sh\necho "systemctl $*" >>"$PROJECT/called"\n'
MAKEFILE = 'bench: bench.sh\n\tcp bench.sh bench\n\tchmod +x bench\n\techo made >>"$$PROJECT/called"\n'


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
        if "victims=nginx" in words:  # one block of it takes seconds
            few = ("measure.blocks=1", "measure.target=null", "measure.pilot=0")
            return [*words, *(word for setting in few for word in ("--set", setting))]
        assert words[1] in ONLY_PLANNED, "run it for real, small, or say which test does"
        return ["run", words[1], "--dry-run", *words[2:]]
    if words[0] == "ab" and "-n" not in words:
        return ["ab", "--target", "none", "--blocks", "6", *words[1:]]
    if words[0] == "watch":
        return [*("2s" if word == "30s" else word for word in words), "-i", "200ms"]
    if words[:3] == ["sample", "1", "10"]:
        return ["sample", "1", "2"]
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
    (contend.path / "data").write_bytes(os.urandom(2**23))  # of the tutorial
    for number in range(1, 4):  # what another tool made
        write(contend.path / f"fio-{number}.json", fio(1000.0 + number))
    if command.startswith("contend context "):  # runs of minutes, made up
        made = {
            "runs/RPC": costs_run(contend.path, {"ends_cpu": 0.9, "broker_cpu": 1.0}),
            "runs/STORM": storms_run(contend.path, {"API": 0.5, "broker": 0.05}),
        }
        command = " ".join(str(made[word].path) if word in made else word for word in command.split())
    words = [re.sub(r"^runs/[A-Z]+$", str(run), word) for word in shlex.split(command, comments=True)[1:]]
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
    if "./bench" in words:
        of_a_project(contend, words)
        return
    # Whether this host's neighbours cost somebody 20 % is the host's affair. The same run twice: whether it changed by
    # 5 % is decided, or the intervals of a run of a moment are too wide.
    codes = {"compare": (0, 5), "watch": (0, 4, 5)}.get(words[0], (0,))
    with subprocess.Popen(["sleep", "600"]) as running:
        try:
            words = [str(running.pid) if word == "4711" else word for word in cut_short(words)]
            own = {"BROWSER": "true"}  # which shows nothing
            said = contend(*words, cwd=contend.path, env=own, timeout=180).no_traceback()
        finally:
            running.kill()
    assert said.code in codes, said
    # Where a command is recorded, stdout is the command's.
    assert (said.err if words[0] == "sample" and "--" in words else said.out).strip(), said


def of_a_project(contend: Home, words: list[str]) -> None:
    """Blocks of A, B and A again, in random order: each trial calls the reader's programs once, or as often as it should."""
    project, tools = contend.path / "project", contend.path / "tools"
    programs = {project / "bench.sh": BENCH, project / "bench": BENCH, tools / "systemctl": SYSTEMCTL}
    for file, text in {**programs, project / "Makefile": MAKEFILE}.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    for line in (
        "init -q -b main",
        "add bench.sh Makefile",
        "-c user.name=a -c user.email=a@b commit -q -m first",
    ):
        subprocess.run(["git", *line.split()], cwd=project, check=True)
    own = {"PROJECT": str(project), "PATH": f"{tools}:{os.environ['PATH']}"}
    contend(*cut_short(words), cwd=project, env=own, timeout=180).fine()
    called = Counter((project / "called").read_text().splitlines())
    done = rows(next((project / "runs").iterdir()))
    assert len(done) >= 6 * 3  # more, where the pilot was too noisy for pairs
    if "--rev" in words:
        assert called == {"made": 2, "bench ": len(done)}
    else:
        new = sum(row["factors"]["variant"] == "B" for row in done)
        assert 0 < called["bench --new"] == new and called["bench --old"] == len(done) - new
        assert called["systemctl restart mysvc"] == len(done)


def test_what_is_only_planned_is_run_by_another_test() -> None:
    planned = {shlex.split(command)[2] for command in COMMANDS if command.startswith("contend run ")}
    assert planned - {"control-plane-growth", "image-download-glance"} == set(ONLY_PLANNED), (
        "of clouds: where there is one"
    )
    for file, word in ONLY_PLANNED.values():
        assert word in (Path(__file__).parents[2] / file).read_text(), file


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGES[0].read_text("utf-8"))
    assert len(links) > 8
    for link in links:
        assert link.startswith("http") or (ROOT / link).exists(), link


def test_the_site_is_built(tmp_path: Path) -> None:
    """Every page of docs/ is; a link or an anchor that leads nowhere fails."""
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    own = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    made = subprocess.run(mkdocs, cwd=ROOT, env=own, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        folder = name.parent if name.name == "README" else name
        assert (tmp_path / folder / "index.html").exists(), page
