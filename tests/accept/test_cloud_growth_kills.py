"""Ten kills of growing populations on a real cloud: `contend destroy` has to leave nothing of any kind there.

Needs a cloud: `testbed/openstack up`, and the variables that it prints. About eight minutes; CONTEND_TEST_KILLS says how
many. Writes docs/results/cloud-growth-kills.json.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.growth.kinds import GROWING
from contend.clouds.openstack import KINDS
from contend.store.ledger import leftovers, read_rows
from results.files import save
from support.clouds import GROWTH, Looking, need_cloud
from support.command_line import Home
from support.kills import fresh_seed

pytestmark = pytest.mark.accept

SETTINGS = ("parameters.step=10", "parameters.upto=31", "parameters.rounds=1", "modes=[quiet,neighbour]")
LAST_S = 12.0  # a moment up to then after the first request is within a pass


def test_ten_kills(tmp_path: Path) -> None:
    looking = Looking(need_cloud())
    seed = fresh_seed()
    chance = random.Random(seed)
    there = [
        kind for kind, growing in GROWING.items() if growing.kind.service in looking.api.access.endpoints
    ]
    chance.shuffle(there)
    network = {"network": {"name": "contend-of-somebody-else", "description": "contend_run=another"}}
    stranger = looking.make(KINDS["network"], network)
    lives = []
    try:
        many = int(os.environ.get("CONTEND_TEST_KILLS", "10"))
        # A run that ends before its moment comes is not counted, and another one killed in its place.
        for number in range(2 * many):
            if sum(life["hit"] for life in lives) == many:
                break
            home = Home(tmp_path / str(number))
            lives.append(kill_and_destroy(home, looking, chance, there[number % len(there)]))
            print(number, lives[-1], flush=True)
            shutil.rmtree(home.path)
        kept = looking.names("contend-of-somebody-else")
    finally:
        looking.api.request("DELETE", "network", f"/networks/{stranger}", absent=True)
    write(lives, seed)
    assert kept == ["contend-of-somebody-else"], "destroy took what it had not made"
    assert [life for life in lives if life["left"] or life["code"]] == []
    assert any(life["pending"] for life in lives if life["hit"]), "no kill hit a pass: nothing was tested"


def kill_and_destroy(home: Home, looking: Looking, chance: random.Random, kind: str) -> dict[str, Any]:
    """One run killed with its client, or only contend itself; then what destroy left on the cloud."""
    alone = chance.random() < 0.5
    asked = [word for setting in (f"kinds=[{kind}]", *SETTINGS) for word in ("--set", setting)]
    process = home.start(*GROWTH, *asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    moment = wait_for_pass(home, process, chance.uniform(0.0, LAST_S))
    if not alone:  # else the client goes on for a while
        for pid, _ in home._processes():
            os.kill(pid, signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    hit = process.wait() == -signal.SIGKILL  # else the run had ended: that is no kill of it
    runs = home.run_directories()
    pending = [row for run in runs for row in leftovers(run / "ledger.ndjson")]
    pending = [row for row in pending if str(row["kind"]).startswith("openstack-")]
    began = time.monotonic()
    said = home("destroy", "--all", timeout=600)
    took_s = time.monotonic() - began
    time.sleep(1.0)
    return {
        "kind": kind,
        "after_s": round(moment, 2),
        "alone": alone,
        "hit": hit,
        "pending": dict(Counter(str(row["kind"]) for row in pending)),
        "unanswered": sum(row["event"] == "intend" for row in pending),
        "removed": said.out.count("removed openstack-"),
        "code": said.code,
        "said": said.err[:300],
        "took_s": round(took_s, 1),
        "left": looking.names(f"contend-{runs[0].name}") + home.left() if runs else [],
    }


def wait_for_pass(home: Home, process: subprocess.Popen[str], beyond_s: float) -> float:
    """Until so long after the first entity was announced, or until the run's end. How long after its start that is."""
    began = time.monotonic()
    announced = 0.0
    while process.poll() is None and time.monotonic() - began < 120:
        if not announced:
            rows = [r for run in home.run_directories() for r in read_rows(run / "ledger.ndjson")]
            if any(str(row.get("kind", "")).startswith("openstack-") for row in rows):
                announced = time.monotonic()
        elif time.monotonic() - announced > beyond_s:
            break
        time.sleep(0.01)
    return time.monotonic() - began


def write(lives: list[dict[str, Any]], seed: int) -> None:
    hits = [life for life in lives if life["hit"]]
    clean = sum(not life["left"] and not life["code"] for life in hits)
    document = {
        "kills": len(hits),
        "moments_after_the_end": len(lives) - len(hits),
        "clean": clean,
        "removed": sum(life["removed"] for life in lives),
        "lives": lives,
    }
    save("cloud-growth-kills", document, seed=seed)
