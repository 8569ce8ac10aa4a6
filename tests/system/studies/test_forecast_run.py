"""`contend run` of a forecast on this host, small: every kind of cell is measured, and what came of it is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from contend.advice.document import AdviceDocument
from contend.analysis.schema import analysis_schema
from contend.text.shape import schema
from contend.workloads.generators.pressure_probe import PROBES
from support.command_line import Home, check_files, rows
from support.generators import parameters_file
from support.prerequisites import need

GENERATORS = [sys.executable, "-P", "-m", "contend.workloads.generators"]
SMALL = """
study: sensitivity
title: Who goes with whom?
workloads: [tiny, burner]
injectors: {cpu: stress-cpu, lock: stress-switch}
intensities: [30, 100]
measure: {target: null, blocks: 1, pilot: 0, seed: 4, trial: 100ms}
"""


@pytest.fixture
def contend(tmp_path: Path) -> Home:
    need(shutil.which("stress-ng"), "stress-ng")
    return Home(tmp_path)


def test_from_end_to_end(contend: Home) -> None:
    (contend.path / "small.yaml").write_text(SMALL)
    planned = contend("run", "small.yaml", "--dry-run", cwd=contend.path).fine().out
    assert "   8 a workload under an injector" in planned
    assert "held out, to judge the forecast by: " in planned
    contend("run", "small.yaml", cwd=contend.path, timeout=300).fine()
    run = contend.the_run()
    check_files(run)
    assert (run / "report.html").stat().st_size > 100_000
    done = Counter(row["factors"]["role"] for row in rows(run) if row["status"] == "ok")
    assert done == {"alone": 8, "curve": 8, "calibration": 8, "pressure": 4, "pair": 4}
    found = json.loads((run / "findings.json").read_text())
    jsonschema.validate(found, analysis_schema())
    assert found["sensitivity"]["workloads"] == ["tiny", "burner"]
    assert len(found["sensitivity"]["pairs"]) == 4
    said = contend("advise", str(run), "--json", cwd=contend.path)
    assert said.code == 5
    jsonschema.validate(said.json(), schema(AdviceDocument))
    assert said.json()["runs"][0]["refused"]  # of four pairs, two cannot tell, if there is a scale at all
    resumed = contend("run", "--resume", str(run), cwd=contend.path, timeout=120).fine()
    assert resumed.code == 0
    assert len(rows(run)) == sum(done.values())  # nothing was done twice
    contend.nothing_left()


@pytest.mark.parametrize("resource", sorted(PROBES))
def test_a_probe_counts_what_it_does(resource: str, tmp_path: Path) -> None:
    work = Path(__file__).parent / f".probe-{os.getpid()}"
    work.mkdir()
    file = parameters_file("pressure-probe", work, tmp_path, resource=resource)
    try:
        for words in (["prepare", file], ["run", file, "0.2s"]):
            began = time.monotonic()
            subprocess.run([*GENERATORS, "pressure-probe", *words], check=True, timeout=60)
    finally:
        shutil.rmtree(work)
    took_s = time.monotonic() - began
    said = json.loads((tmp_path / "probe.json").read_text())
    assert said["resource"] == resource
    assert 0.2 <= said["done"] / said["rate"] * (1 + 1e-9) <= took_s, (
        "by the time that it took, not by what was asked for"
    )
    assert said["done"] > 20


def stat(pid: int) -> tuple[str, float]:
    """Its state, and the CPU seconds that it has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_pulse_stops_its_command_for_the_rest_of_the_time_and_leaves_nothing() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    pulse = subprocess.Popen([*GENERATORS, "pulse", "--share", "30", "--", *spin])
    try:
        deadline = time.monotonic() + 20
        while not children(pulse.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        (child,) = children(pulse.pid)
        states: Counter[str] = Counter()
        while states.total() < 400:
            states[stat(child)[0]] += 1
            time.sleep(0.003)
        assert states["T"] > 40, states  # stopped
        assert states["R"] + states["S"] > 20, states  # and going on
    finally:
        pulse.send_signal(signal.SIGKILL)
        pulse.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and stat(child)[0] != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists() or stat(child)[0] == "Z"


def test_a_pulse_ends_as_its_command_does() -> None:
    def code(share: str, *command: str) -> int:
        return subprocess.run([*GENERATORS, "pulse", "--share", share, "--", *command], timeout=60).returncode

    assert code("50", "sh", "-c", "exit 7") == 7
    assert code("100", "sh", "-c", "exit 7") == 7
    assert code("50", "sh", "-c", "kill -TERM $$") == 128 + signal.SIGTERM
    assert code("50", "/no/such/program") == 127
    assert code("0", "true") == 2
