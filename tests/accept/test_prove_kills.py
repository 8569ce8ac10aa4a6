"""`contend prove` killed with SIGKILL at random moments: what it changed is put back within a second.

Sixty kills; CONTEND_TEST_KILLS says how many. Writes docs/results/prove-kills.json. About ten minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from contend.platforms import treatments
from contend.stats.quantiles import clopper_pearson
from contend.store.directory import RunDirectory
from contend.store.ledger import leftovers
from proving.planted import Draw, beside
from results.files import save
from support.command_line import Home
from support.kills import fresh_seed
from support.prerequisites import need

pytestmark = pytest.mark.accept

WITHIN_S = 1.0
LONGEST_S = 12.0
"""After the start, until which a kill may come: imports, checks, and some twenty trials."""


def test_what_is_killed_leaves_nothing_changed(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "run as root: limits of others are changed")
    seed = fresh_seed()
    chance = random.Random(seed)
    lives = []
    while sum(life["hit"] for life in lives) < int(os.environ.get("CONTEND_TEST_KILLS", "60")):
        folder = tmp_path / str(len(lives))
        folder.mkdir()
        lives.append(killed(folder, chance))
        print(len(lives), lives[-1], flush=True)
    hits = [life for life in lives if life["hit"]]
    back = sum(life["back_s"] is not None and life["back_s"] <= WITHIN_S for life in hits)
    save(
        "prove-kills",
        {
            "kills": len(hits),
            "back": back,
            "bounds_95": list(clopper_pearson(back, len(hits))),
            "lives": lives,
        },
        seed=seed,
    )
    assert back == len(hits)
    assert not [life for life in hits if life["left"] or life["code"]]
    assert any(life["treated"] for life in hits), "no kill came while somebody was held back"


def killed(folder: Path, chance: random.Random) -> dict[str, Any]:
    """One experiment that is killed; how long it took until all was as before, and what destroy left."""
    home = Home(folder)
    draw = Draw(0, 1, "service", "burner", 0.0)
    with beside(draw, folder) as planted:
        switch = treatments.cpu_weight([planted.group])
        process = home.start(
            *("prove", str(planted.victim.pid), "--against", f"/{planted.group.name}", "--by", "weight"),
            *("--trial", "500ms", "--for", "60s", "--consent"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        moment = chance.uniform(0.0, LONGEST_S)
        time.sleep(moment)
        was = switch.setting.read()
        process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        hit = process.wait() == -signal.SIGKILL  # else it had ended
        back_s = None
        while back_s is None and time.monotonic() < began + 10 * WITHIN_S:
            if switch.setting.read() == switch.before:
                back_s = round(time.monotonic() - began, 3)
            time.sleep(0.002)
        time.sleep(0.1)  # nobody changes it again
        still = switch.setting.read() == switch.before
        runs = home.run_directories()
        trials = len(RunDirectory(runs[0]).rows()) if runs and (runs[0] / "trials.ndjson").exists() else 0
        ended = home("destroy", "--all", timeout=60)
        left = leftovers(runs[0] / "ledger.ndjson") if runs and (runs[0] / "ledger.ndjson").exists() else []
    return {
        "after_s": round(moment, 2),
        "hit": hit,
        "trials": trials,
        "treated": was == switch.during,
        "back_s": back_s if still else None,
        "code": ended.code,
        "left": [str(row["name"]) for row in left] + home.left(),
    }
