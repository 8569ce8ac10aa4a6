"""Kill contend with SIGKILL at a chosen moment of a run's life, clean up, resume, and check that nothing is lost.

`kill_and_recover` is one such life; the tests choose the moments. Before the kill a moment is a share of the
time that the same run takes undisturbed, so that all of its life is reached: start, preparation, pilot,
blocks, tear-down and report.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.command_line import Home, check_files, rows

# Short runs that have every phase. Blocks: as many as make the trials most of the run's life.
BLOCKS = {"bare": 8, "container podman": 8, "container runc": 8, "network pair": 3}
SCENARIOS = {
    "bare": "victims: [tiny]\nneighbours: [burner]\n",
    "container podman": "victims: [tiny]\nneighbours: [burner]\nplatform: {kind: container, engine: podman}\n",
    "container runc": "victims: [tiny]\nneighbours: [burner]\nplatform: {kind: container, engine: runc}\n",
    "network pair": "victims: [iperf3]\nneighbours: [burner]\n",
}
MEASURE = (
    "study: interference\nmeasure: {{target: null, blocks: {blocks}, pilot: 1, seed: 7, design: pairs}}\n"
)


ENDED = "finished before the kill"


@dataclass
class Life:
    """What happened to one run. `lost`, `repeated`, `torn` and `left` name what should not have been."""

    scenario: str
    after_s: float
    phase: str = ""
    finished_before: int = 0
    finished_after: int = 0
    lost: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def recovered(self) -> bool:
        return not (self.lost or self.left or self.torn or self.problems)


def write_scenario(home: Home, name: str) -> str:
    path = home.path / f"{name.replace(' ', '-')}.yaml"
    path.write_text(MEASURE.format(blocks=BLOCKS[name]) + SCENARIOS[name], encoding="utf-8")
    return path.name


def duration(home: Home, name: str) -> float:
    """Seconds that the run takes when nobody kills it."""
    began = time.monotonic()
    home("run", write_scenario(home, name), timeout=300).fine()
    return time.monotonic() - began


def kill_and_recover(home: Home, name: str, after_s: float) -> Life:
    """Start the scenario in a fresh home, kill contend after that time, destroy, resume, and look at everything."""
    life = Life(name, after_s)
    process = home.start(
        "run", write_scenario(home, name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = home.run_directories()
    life.phase = phase(found[0] if found else None, killed=process.returncode == -signal.SIGKILL)
    before = whole_lines(found[0] / "trials.ndjson") if found else []
    life.finished_before = len(before)

    cleaned = home("destroy", "--all", "--json")
    if cleaned.code != 0:
        life.problems.append(f"destroy: {cleaned}")
    life.left = home.left()
    if not found or not (found[0] / "plan.json").exists():
        return life  # killed before there was a run to go on with
    run = found[0]
    resumed = home("run", "--resume", str(run), timeout=300)
    if resumed.code != 0:
        life.problems.append(f"resume: {resumed}")
    life.left += home.left()
    try:
        check_files(run)
    except (AssertionError, ValueError, OSError) as error:
        life.torn.append(str(error))
    after = whole_lines(run / "trials.ndjson")
    life.finished_after = len(after)
    if after[: len(before)] != before:
        life.lost.append("rows that were on the disk before the kill are not the first ones after it")
    finished = [row["trial"] for row in rows(run) if row["status"] == "ok"]
    if len(set(finished)) != len(finished):
        life.lost.append("a finished trial was run again")
    plan = json.loads((run / "plan.json").read_text(encoding="utf-8"))
    counted = {index for index, _, kind, _, _ in plan["trials"] if kind == "counted"}
    if missing := counted - set(finished):
        life.lost.append(f"counted trials {sorted(missing)[:5]} never finished")
    if not (run / "report.html").exists() or not (run / "findings.json").exists():
        life.problems.append("there is no report")
    return life


def whole_lines(path: Path) -> list[bytes]:
    """Lines with their newline: a torn last one is not a finished trial."""
    data = path.read_bytes() if path.exists() else b""
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def phase(run: Path | None, *, killed: bool) -> str:
    """Where in its life a run was, from what it had written."""
    if not killed:
        return ENDED
    if run is None or not (run / "plan.json").exists():
        return "start"
    if (run / "findings.json").exists():
        return "report"
    events = []
    for line in whole_lines(run / "ledger.ndjson"):
        with contextlib.suppress(ValueError):
            events.append(json.loads(line)["event"])
    if "run-end" in events:
        return "analysis"
    if "probe-cost" in events:
        return "tear-down"
    if "pilot" in events:
        return "blocks"
    return "pilot" if "trial-start" in events else "preparation"


def moments(seed: int, count: int, whole_s: float) -> list[float]:
    """One moment at random in each of `count` equal parts of the run's life, in random order."""
    chance = random.Random(seed)
    found = [(number + chance.random()) / count * whole_s for number in range(count)]
    chance.shuffle(found)
    return found


def fresh_seed() -> int:
    """CONTEND_TEST_SEED, or a random one; tests print it, so that a failure can be had again."""
    given = os.environ.get("CONTEND_TEST_SEED")
    return int(given) if given else random.SystemRandom().randrange(10**6)
