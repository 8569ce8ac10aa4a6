"""Guests of the platform vm: twenty boots, and thirty kills of a real run at random moments, of which nothing may stay.

Needs root, QEMU, and what builds an image. About ten minutes; CONTEND_TEST_BOOTS and CONTEND_TEST_KILLS say how many.
Writes docs/results/guests.json.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from contend.errors import CannotHonour
from contend.platforms import procfs
from contend.platforms.base import HostSpec
from contend.platforms.guests import image
from contend.platforms.guests.needs import need as need_guests
from contend.platforms.vm import VmPlatform
from contend.stats.quantiles import clopper_pearson
from contend.store.ledger import Ledger, leftovers
from results.files import load, path_of, save
from support.command_line import Home
from support.kills import fresh_seed
from support.prerequisites import need

pytestmark = pytest.mark.accept

LATEST_S = 25.0  # after its start, by when a run of one block has its guests and is measuring


def can() -> None:
    try:
        need_guests()
    except CannotHonour as error:
        need(False, error.message)


def write(key: str, told: dict[str, Any]) -> None:
    before = load("guests") if path_of("guests").exists() else {}
    kept = {part: before[part] for part in ("boots", "kills") if part in before}
    save("guests", {**kept, key: told})


def test_every_boot_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    can()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    many = int(os.environ.get("CONTEND_TEST_BOOTS", "20"))
    boots: list[dict[str, Any]] = []
    for number in range(many):
        run_id = f"boots-{os.getpid()}-{number}"
        with Ledger(tmp_path / f"{number}.ndjson") as ledger:
            made = VmPlatform(run_id, ledger, directory=tmp_path)
            try:
                got = made.prepare(HostSpec("guest", "victim", directory=tmp_path)).honoured()
            finally:
                made.close()
        assert not list(procfs.marked(run_id))
        boots.append({"boot_s": got["boot_s"], "accel": got["accel"], "boots_failed": got["boots_failed"]})
    at_once = sum(not boot["boots_failed"] for boot in boots)
    low, high = clopper_pearson(at_once, many)
    times = [boot["boot_s"] for boot in boots]
    print(
        f"\n{at_once} of {many} at the first try [{low:.2f}, {high:.2f}], median {statistics.median(times)} s"
    )
    write("boots", {"boots": boots, "first_try": at_once, "interval": [low, high]})
    assert len(boots) == many


def test_kills(tmp_path: Path) -> None:
    can()
    many = int(os.environ.get("CONTEND_TEST_KILLS", "30"))
    seed = fresh_seed()
    chance = random.Random(seed)
    lives: list[dict[str, Any]] = []
    for number in range(many):
        home = Home(tmp_path / str(number))
        lives.append(kill_and_destroy(home, chance))
        print(number + 1, lives[-1], flush=True)
        shutil.rmtree(home.path)
    clean = sum(not life["left"] and not life["code"] for life in lives)
    low, high = clopper_pearson(clean, many)
    write("kills", {"seed": seed, "lives": lives, "clean": clean, "interval": [low, high]})
    print(f"\n{clean} of {many} left nothing [{low:.2f}, {high:.2f}]")
    assert clean == many
    assert any(life["pending"] for life in lives), "no kill hit a guest"


def kill_and_destroy(home: Home, chance: random.Random) -> dict[str, Any]:
    """A run on a guest and on a container in one, killed outright; then what `contend destroy` left of it."""
    settings = (
        "app=gzip -1 -k -c /bin/true",
        "sizes=1",
        "platforms=[vm,container-in-vm]",
        "provisioning=pinned",
    )
    settings += ("measure.target=null", "measure.blocks=50", "measure.pilot=1")
    words = [word for setting in settings for word in ("--set", setting)]
    process = home.start(
        "run", "platform-overhead", *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    moment_s = chance.uniform(0.5, LATEST_S)
    time.sleep(moment_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    runs = home.run_directories()
    pending = leftovers(runs[0] / "ledger.ndjson") if runs else []
    said = home("destroy", "--all", timeout=300)
    time.sleep(0.5)
    return {
        "after_s": round(moment_s, 2),
        "pending": len(pending),
        "code": said.code,
        "said": said.err[:300],
        "left": home.left() + sorted(standing(runs[0].name)) if runs else [],
    }


def standing(run_id: str) -> set[str]:
    """What is there of the run's guests and of builds of their images."""
    found = {f"process {pid}" for pid in procfs.marked(run_id)}
    return found | {f"half image {path}" for path, of in image.left() if of == run_id}
