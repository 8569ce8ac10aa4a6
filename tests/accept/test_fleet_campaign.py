"""Eight hosts, two hundred trials each, one worker killed and one host cut off: docs/results/fleet.md.

The hosts are network namespaces of this machine with SSH servers; all else is as on eight machines.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from results.files import save
from support.command_line import check_files, rows, wait_for
from support.fleet_lab import Lab, can, lab
from support.prerequisites import need

pytestmark = [pytest.mark.accept, pytest.mark.one_of("strays")]

HOSTS, BLOCKS = 8, 67  # three cells a block: 201 counted trials on each host
OFFSET_S = 1000
SCENARIO = f"""\
study: interference
victims: [tiny]
neighbours: [burner]
measure: {{target: null, blocks: {BLOCKS}, pilot: 1, seed: 7, design: pairs}}
hosts: {{names: [{", ".join(f"h{n}" for n in range(1, HOSTS + 1))}], start: together, lost: 20s, behind: 50}}
"""


def finished(run: Path, host: str) -> int:
    return sum(r["host"] == host and r["phase"] == "counted" and r["status"] == "ok" for r in rows(run))


def losses(run: Path, made: Lab) -> dict[str, Any]:
    """What is missing or twice of what the hosts' plans have, and of what their own files held."""
    found = rows(run)
    keys = Counter((r["host"], r["trial"], r["attempt"]) for r in found)
    ok = Counter((r["host"], r["trial"]) for r in found if r["status"] == "ok")
    planned = {
        (host, trial[0])
        for host in made.hosts
        for trial in json.loads((run / "hosts" / host / "plan.json").read_text())["trials"]
        if trial[2] == "counted"
    }
    return {
        "planned": len(planned),
        "lost": len(planned - set(ok)),
        "doubled": sum(n - 1 for n in keys.values()) + sum(n - 1 for n in ok.values()),
        "rows": len(found),
    }


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    need(not can(), can())
    with lab(tmp_path, HOSTS, offsets={"h5": OFFSET_S}) as made:
        (tmp_path / "mine.yaml").write_text(SCENARIO, encoding="utf-8")
        began = time.monotonic()
        with made.start(*made.run_words("mine.yaml")) as process:
            wait_for(lambda: list(made.runs.glob("*/trials.ndjson")), "a row", 300)
            run = made.the_run()
            wait_for(
                lambda: min(finished(run, host) for host in made.hosts) >= 40,
                "40 trials of each",
                1800,
                interval_s=1,
            )
            at_kill = {host: finished(run, host) for host in made.hosts}
            os.kill(made.hosts["h2"].worker(), signal.SIGKILL)
            wait_for(lambda: finished(run, "h7") >= 90, "90 trials of h7", 1800, interval_s=1)
            made.hosts["h7"].link(up=False)
            _, err = process.communicate(timeout=3600)
        assert process.returncode == 3, err
        first_s = time.monotonic() - began
        before = rows(run)
        report = json.loads((run / "findings.json").read_text())["fleet"]
        (missing,) = report["missing"]
        assert missing.startswith("h7: ")
        made.hosts["h7"].link(up=True)
        wait_for(lambda: not made.hosts["h7"].processes("contend.fleet.part"), "end of what was cut off", 120)
        resumed = made("run", "--resume", str(run), timeout=3600)
        assert resumed.code == 0, resumed
        assert rows(run)[: len(before)] == before
        check_files(run)
        told = losses(run, made)
        findings = json.loads((run / "findings.json").read_text())
        hosts = {host["host"]: host for host in findings["fleet"]["hosts"]}
        clock = hosts["h5"]["clock"]["start"]
        late_ms = sorted(
            host["start_late_ns"] / 1e6 for host in hosts.values() if host["start_late_ns"] is not None
        )
        (cell,) = findings["cells"]
        record = {
            "hosts": HOSTS,
            "counted_trials_each": 3 * BLOCKS,
            **told,
            "rows_when_the_worker_was_killed": at_kill,
            "missing_said": missing,
            "losses": {host: state["losses"] for host, state in hosts.items()},
            "injected_offset_ns": OFFSET_S * 10**9,
            "found_offset": clock,
            "block_starts_late_ms": {"least_of_hosts": late_ms[0], "most_of_hosts": late_ms[-1]},
            "pooled_over": cell["estimate"]["n"],
            "left_behind": [*made.left(), *made.parts()],
            "first_part_s": round(first_s),
        }
    save("fleet", record)
    assert told["lost"] == told["doubled"] == 0
    assert record["left_behind"] == []
    assert findings["fleet"]["pooled"] and cell["estimate"]["n"] == HOSTS
    assert abs(clock["offset_ns"] - OFFSET_S * 10**9) <= clock["bound_ns"]
