"""Thirty kills at random moments of boot storms on a real cloud: `contend destroy` has to leave nothing there.

Needs a cloud: `testbed/openstack up`, and the variables that it prints. About twelve minutes; CONTEND_TEST_KILLS says
how many. Writes docs/results/cloud-kills.json.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from contend.stats.quantiles import clopper_pearson
from contend.store.ledger import leftovers, read_rows
from results.files import save
from support.clouds import Looking, need_cloud
from support.command_line import Home
from support.kills import fresh_seed

pytestmark = pytest.mark.accept

STORM = ("run", "boot-storm", "--set", "n=[8]", "--set", "measure.blocks=1", "--set", "measure.target=null")
LAST_S = 14.0  # a moment up to then is within the first storms, wherever they are on a busy machine


def test_thirty_kills(tmp_path: Path) -> None:
    looking = Looking(need_cloud())
    seed = fresh_seed()
    chance = random.Random(seed)
    stranger = looking.server("contend-of-somebody-else", {"contend_run": "another"})
    lives = []
    try:
        many = int(os.environ.get("CONTEND_TEST_KILLS", "30"))
        # A run that ends before its moment comes is not counted, and another one killed in its place.
        for number in range(2 * many):
            if sum(life["hit"] for life in lives) == many:
                break
            home = Home(tmp_path / str(number))
            lives.append(kill_and_destroy(home, looking, chance))
            print(number, lives[-1], flush=True)
            shutil.rmtree(home.path)
        kept = looking.names("contend-of-somebody-else")
    finally:
        looking.delete(stranger)
    write(lives, seed)
    assert kept == ["contend-of-somebody-else"], "destroy took what it had not made"
    assert [life for life in lives if life["left"] or life["code"]] == []
    assert any(life["pending"] for life in lives if life["hit"]), "no kill hit a storm: nothing was tested"


def kill_and_destroy(home: Home, looking: Looking, chance: random.Random) -> dict[str, Any]:
    """One run killed with its client, all at once or only contend itself; then what destroy left on the cloud."""
    home.path.mkdir(exist_ok=True)
    alone = chance.random() < 0.5
    process = home.start(*STORM, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    moment = wait_for_storm(home, process, chance.uniform(0.0, LAST_S))
    if not alone:  # else the client goes on for a while, and makes servers that nobody waits for
        for pid, _ in home._processes():
            os.kill(pid, signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    hit = process.wait() == -signal.SIGKILL  # else the run had ended: that is no kill of it
    runs = home.run_directories()
    pending = leftovers(runs[0] / "ledger.ndjson") if runs else []
    servers = [row for row in pending if str(row["kind"]).startswith("openstack-")]
    began = time.monotonic()
    said = home("destroy", "--all", timeout=300)
    took_s = time.monotonic() - began
    time.sleep(1.0)
    return {
        "after_s": round(moment, 2),
        "alone": alone,
        "hit": hit,
        "pending": len(servers),
        "unanswered": sum(row["event"] == "intend" for row in servers),
        "removed": said.out.count("removed openstack-server"),
        "code": said.code,
        "said": said.err[:300],
        "took_s": round(took_s, 1),
        "left": looking.names(f"contend-{runs[0].name}") + home.left() if runs else [],
    }


def wait_for_storm(home: Home, process: subprocess.Popen[str], beyond_s: float) -> float:
    """Until so long after the first server was announced, or until the run's end. How long after its start that is."""
    began = time.monotonic()
    announced = 0.0
    while process.poll() is None and time.monotonic() - began < 120:
        if not announced:
            rows = [r for run in home.run_directories() for r in read_rows(run / "ledger.ndjson")]
            if any(row.get("kind") == "openstack-server" for row in rows):
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
        "servers_removed": sum(life["removed"] for life in lives),
        "lives": lives,
    }
    save("cloud-kills", document, seed=seed)
