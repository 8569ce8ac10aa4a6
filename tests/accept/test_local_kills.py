"""Kills at random moments of storms of this host's own machines: `contend destroy` has to leave nothing.

Ten of containers on their engine's network, five of emulated micro-VMs with a tap each, and five of emulated domains of a
libvirt of the test's own. About six minutes; CONTEND_TEST_KILLS says how many of containers, and half of it of each of the
others. Writes docs/results/local-kills.json.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.local.settle import vm_lacks
from contend.errors import CannotHonour
from contend.platforms import engines, procfs
from contend.platforms.guests import virsh
from contend.stats.quantiles import clopper_pearson
from contend.store.ledger import leftovers, read_rows
from contend.testbed import virt
from results.files import save
from support.command_line import Home
from support.kills import fresh_seed
from support.prerequisites import need

pytestmark = pytest.mark.accept

STORM = ("run", "boot-storm", "--cloud", "local", "--set", "measure.blocks=1", "--set", "measure.target=null")
# By kind: its settings, and how long after the first announcement a kill may come.
KINDS = {
    "containers": (("parameters.engine=podman", "n=[6]", "network=auto"), 6.0),
    "micro-VMs": (("parameters.engine=qemu", "parameters.accel=tcg", "n=[3]", "network=auto"), 10.0),
    "domains": (("parameters.engine=libvirt", "parameters.accel=tcg", "n=[3]", "network=user"), 12.0),
}
ATTEMPTS = 3  # a run that ends before its moment comes is not counted, and tried again


def test_kills(tmp_path: Path) -> None:
    need(not (lacks := vm_lacks()), "; ".join(f"{error.message} ({error.hint})" for error in lacks))
    try:
        virt.need()
        engines.detect("podman")
    except CannotHonour as error:
        need(False, error.message)
    seed = fresh_seed()
    chance = random.Random(seed)
    many = int(os.environ.get("CONTEND_TEST_KILLS", "10"))
    lives: list[dict[str, Any]] = []
    # A socket's path is short.
    with tempfile.TemporaryDirectory(prefix="contend-virt-") as name, virt.running(Path(name)) as uri:
        for kind in ["containers"] * many + ["micro-VMs"] * (many // 2) + ["domains"] * (many // 2):
            for _ in range(ATTEMPTS):
                home = Home(tmp_path / str(len(lives)))
                lives.append(kill_and_destroy(home, kind, chance, uri))
                print(len(lives), lives[-1], flush=True)
                shutil.rmtree(home.path)
                if lives[-1]["hit"]:
                    break
    write(lives, seed)
    assert [life for life in lives if life["left"] or life["code"]] == []
    for kind in KINDS:
        hits = [life for life in lives if life["kind"] == kind and life["hit"]]
        assert any(life["pending"] for life in hits), f"no kill hit a storm of {kind}"


def kill_and_destroy(home: Home, kind: str, chance: random.Random, uri: str) -> dict[str, Any]:
    """One run killed with the client that makes its machines, or only contend itself; then what destroy left.

    Calls of podman are not killed: what podman leaves when it is killed while it makes a network is podman's.
    """
    settings, last_s = KINDS[kind]
    alone = chance.random() < 0.5
    before = of_engines()
    words = [word for setting in (*settings, f"parameters.uri={uri}") for word in ("--set", setting)]
    process = home.start(*STORM, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    moment = wait_for_storm(home, process, chance.uniform(0.0, last_s))
    if not alone:  # else the client goes on for a while, and makes machines that nobody waits for
        for pid, line in home._processes():
            if not line.startswith("podman"):
                os.kill(pid, signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    hit = process.wait() == -signal.SIGKILL  # else the run had ended: that is no kill of it
    runs = home.run_directories()
    pending = leftovers(runs[0] / "ledger.ndjson") if runs else []
    machines = [row for row in pending if row["kind"] in ("local-container", "local-vm", "local-domain")]
    began = time.monotonic()
    said = home("destroy", "--all", timeout=300, env={"LIBVIRT_DEFAULT_URI": uri})
    took_s = time.monotonic() - began
    time.sleep(1.0)
    return {
        "kind": kind,
        "after_s": round(moment, 2),
        "alone": alone,
        "hit": hit,
        "pending": len(machines),
        "removed": said.out.count("removed local-"),
        "code": said.code,
        "said": said.err[:300],
        "took_s": round(took_s, 1),
        "left": sorted(standing(runs[0], uri) | (of_engines() - before)) + home.left() if runs else [],
    }


def of_engines() -> set[str]:
    """What engines make for a network, whoever asked them: it has no name of ours."""
    links = {f"link {path.name}" for path in Path("/sys/class/net").glob("veth*")}
    # Names of podman's: netns-UUID with netavark, cni-UUID before.
    made = [path for pattern in ("netns-*", "cni-*") for path in Path("/run/netns").glob(pattern)]
    return links | {f"netns {path.name}" for path in made}


def standing(run: Path, uri: str) -> set[str]:
    """What is there of the run's machines."""
    rows = list(read_rows(run / "ledger.ndjson"))
    taps, files = (
        {str(row["name"]) for row in rows if row.get("kind") == kind} for kind in ("local-tap", "local-files")
    )
    found = {f"container {name}" for name, _, of in engines.containers() if of == run.name}
    found |= {f"process {pid}" for pid in procfs.marked(run.name)}
    listed = virsh.ask(uri, "list", "--all", "--name").out.split()
    found |= {f"domain {name}" for name in listed if run.name in name}
    found |= {f"files {name}" for name in files if Path(name).exists()}
    return found | {f"link {tap}" for tap in taps if (Path("/sys/class/net") / tap).exists()}


def wait_for_storm(home: Home, process: subprocess.Popen[str], beyond_s: float) -> float:
    """Until so long after the first machine was announced, or until the run's end. How long after its start that is."""
    began = time.monotonic()
    announced = 0.0
    while process.poll() is None and time.monotonic() - began < 120:
        if not announced:
            rows = [r for run in home.run_directories() for r in read_rows(run / "ledger.ndjson")]
            if any(str(row.get("kind", "")).startswith("local-") for row in rows):
                announced = time.monotonic()
        elif time.monotonic() - announced > beyond_s:
            break
        time.sleep(0.01)
    return time.monotonic() - began


def write(lives: list[dict[str, Any]], seed: int) -> None:
    hits = [life for life in lives if life["hit"]]
    clean = sum(not life["left"] and not life["code"] for life in hits)
    low, high = clopper_pearson(clean, len(hits))
    document = {
        "kills": len(hits),
        "moments_after_the_end": len(lives) - len(hits),
        "clean": clean,
        "bounds_95": [low, high],
        "machines_removed": sum(life["removed"] for life in lives),
        "lives": lives,
    }
    save("local-kills", document, seed=seed)
