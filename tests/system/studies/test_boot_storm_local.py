"""Storms of this host's own machines, real ones: containers through the whole of contend, and one emulated micro-VM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.local.settle import vm_lacks
from contend.errors import CannotHonour
from contend.platforms import engines, procfs
from contend.platforms.guests import virsh
from contend.store.ledger import Ledger, leftovers, read_rows
from contend.testbed import virt
from contend.workloads.spec import Scalar
from support.command_line import Home, check_files, rows
from support.generators import parameters_file
from support.prerequisites import need

RUN = "boot-storm-20260102-101500-7f3a"
STORM = ("run", "boot-storm", "--cloud", "local", "--set", "measure.target=null", "--set", "measure.pilot=0")


def some_engine() -> str:
    """podman, docker or runc, whichever works here."""
    said = []
    for name in ("podman", "docker", "runc"):
        try:
            return engines.detect(name).name
        except CannotHonour as error:
            said.append(error.message)
    need(False, f"a container engine: {'; '.join(said)}")
    raise AssertionError


@pytest.mark.one_of("strays")  # whoever lists containers fails at one that goes
def test_containers_of_two_sizes(contend: Home) -> None:
    engine = some_engine()
    asked = ("--set", f"parameters.engine={engine}", "--set", "n=[1,3]", "--set", "measure.blocks=1")
    told = contend(*STORM, *asked, "--json", timeout=300).fine().json()
    run = contend.the_run()
    assert [(size["n"], size["storms"]) for size in told["storms"]["sizes"]] == [(1, 2), (3, 1)]
    assert told["storms"]["platform"] == f"container ({engine})"
    assert told["storms"]["awaited"] == "served"
    assert {row["factors"]["platform"] for row in rows(run)} == {f"container ({engine})"}
    assert leftovers(run / "ledger.ndjson") == []
    assert [name for name, _, of in engines.containers() if of == run.name] == []
    check_files(run)
    announced = [
        r
        for r in read_rows(run / "ledger.ndjson")
        if (r["event"], r.get("kind")) == ("intend", "local-container")
    ]
    assert len({row["name"] for row in announced}) == sum(int(row["factors"]["n"]) for row in rows(run))
    storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
    for storm in storms:
        check_storm(storm)
        assert storm["cpu_s"][engine] > 0


def check_storm(storm: dict[str, Any]) -> None:
    assert storm["served"] == storm["n"]
    assert storm["min_s"] <= storm["median_s"] <= storm["p90_s"] <= storm["max_s"] <= storm["makespan_s"]
    for machine in storm["servers"]:
        low, high = machine["active_s"]
        assert machine["due_s"] <= machine["sent_s"] < low <= high
        assert machine["sent_s"] < machine["accepted_s"]
        assert machine["sent_s"] < machine["running_s"]
        assert abs(sum(machine["phases_s"].values()) - ((low + high) / 2 - machine["due_s"])) < 1e-6
        assert len([s for s in machine["phases_s"].values() if s > 0]) > 1, machine["phases_s"]
        assert machine["deleted_s"] < machine["gone_s"][0] <= machine["gone_s"][1]


def generator(work: Path, verb: str, out: Path, **parameters: Scalar) -> None:
    """`boot-storm-local VERB …` as a trial runs it."""
    argv = [sys.executable, "-m", "contend.workloads.generators", "boot-storm-local", verb]
    argv += [parameters_file("boot-storm-local", work, out, **parameters)]
    env = {**os.environ, procfs.MARKER: RUN}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_an_emulated_micro_vm(tmp_path: Path) -> None:
    need(not (lacks := vm_lacks()), "; ".join(f"{error.message} ({error.hint})" for error in lacks))
    work, out = tmp_path / RUN / "work/storm", tmp_path / RUN / "out/000001"
    work.mkdir(parents=True)
    out.mkdir(parents=True)
    with Ledger(tmp_path / RUN / "ledger.ndjson"):
        generator(work, "prepare", work, engine="qemu", accel="tcg")
        generator(work, "storm", out, engine="qemu", n=1)
    storm = json.loads((out / "storm.json").read_text())
    check_storm(storm)
    assert storm["cpu_s"]["qemu"] > 0.1, "emulation is work"
    phases = storm["servers"][0]["phases_s"]
    assert list(phases) == ["process", "machine", "firmware", "kernel"]
    assert (
        storm["servers"][0]["accepted_s"]
        < storm["servers"][0]["running_s"]
        < storm["servers"][0]["active_s"][0]
    )
    assert procfs.marked(RUN) == set()
    assert leftovers(tmp_path / RUN / "ledger.ndjson") == []


def test_an_emulated_domain_of_libvirt(tmp_path: Path) -> None:
    need(not (lacks := vm_lacks()), "; ".join(f"{error.message} ({error.hint})" for error in lacks))
    try:
        virt.need()
    except CannotHonour as error:
        need(False, f"{error.message} ({error.hint})")
    with tempfile.TemporaryDirectory(prefix="contend-virt-") as name:  # a socket's path is short
        with virt.running(Path(name)) as uri:
            check_domains(tmp_path, uri)
        assert virt.guests(Path(name)) == {}


def check_domains(tmp_path: Path, uri: str) -> None:
    work, out = tmp_path / RUN / "work/storm", tmp_path / RUN / "out/000001"
    work.mkdir(parents=True)
    out.mkdir(parents=True)
    with Ledger(tmp_path / RUN / "ledger.ndjson"):
        generator(work, "prepare", work, engine="libvirt", accel="tcg", uri=uri)
        generator(work, "storm", out, engine="libvirt", n=2, network="user")
        announced = leftovers(tmp_path / RUN / "ledger.ndjson")
        assert [row["kind"] for row in announced] == ["local-files"]
        generator(work, "finish", work, engine="libvirt")
    storm = json.loads((out / "storm.json").read_text())
    check_storm(storm)
    assert storm["cpu_s"]["qemu"] > 0.1, "emulation is work"
    for machine in storm["servers"]:
        assert [name for name, s in machine["phases_s"].items() if s > 0] == [
            "libvirt", "machine", "firmware", "kernel",
        ]  # fmt: skip
    assert f"contend-{RUN}" not in virsh.ask(uri, "list", "--all", "--name").out
    assert not Path(announced[0]["name"]).exists()
    assert leftovers(tmp_path / RUN / "ledger.ndjson") == []


def test_what_is_missing_is_one_error(contend: Home) -> None:
    programs = contend.path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(shutil.which("python3") or sys.executable)
    qemu = ("--set", "parameters.engine=qemu", "--set", "parameters.kernel=/nonexistent")
    said = contend(*STORM, *qemu, env={"PATH": str(programs)})
    said.error(2, "qemu-system-x86_64, not found", "no kernel to be read at /nonexistent", "apt-get install")
    assert contend.run_directories() == []
