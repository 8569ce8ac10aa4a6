"""A cost planted behind contend's back: a container that is throttled to less than it was given."""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.command_line import Home, rows

# One thread that works for a fixed number of steps, over many periods of a quota.
BURNER = "sh -c 'i=0; while [ $i -lt 700000 ]; do i=$((i+1)); done'"
PERIOD_S = 0.1  # of the quotas that are written here
TICK_S = 0.01  # of /proc/uptime

# The same, and it tells by clocks that are none of contend's how long it took and what CPU time it used: the kernel's
# uptime and its own row of the scheduler, both read by the shell itself.
ITS_OWN_CLOCK = """\
name: itself-timed
files:
  burn.sh:
    text: |
      read began _ </proc/uptime
      read used _ </proc/self/schedstat
      i=0; while [ $i -lt 700000 ]; do i=$((i+1)); done
      read ended _ </proc/uptime
      read used_then _ </proc/self/schedstat
      echo $began $ended $used $used_then >"$1/told"
run: sh {work}/burn.sh {out}
keep: [told]
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 1s
"""


@dataclass(frozen=True)
class Told:
    """A counted trial, by the burner's own clocks and by contend's."""

    platform: str
    block: int
    took_s: float
    cpu_s: float
    measured_s: float


def told(run: Path) -> list[Told]:
    """Of every counted trial of a burner that times itself, without the control's."""
    found = []
    for row in rows(run):
        if row["phase"] == "counted" and row["status"] == "ok" and not row["cell"].endswith("(control)"):
            words = (run / "outputs" / f"{row['trial']:06d}" / "told").read_text().split()
            took_s = float(words[1]) - float(words[0])
            cpu_s = (int(words[3]) - int(words[2])) / 1e9
            (wall,) = (m["value"] for m in row["metrics"] if m["name"] == "wall")
            found.append(Told(row["factors"]["platform"], row["block"], took_s, cpu_s, wall))
    return found


def ratios(trials: list[Told]) -> list[float]:
    """By block: how many times as long it took in the container, by its own clock."""
    took = {(one.platform, one.block): one.took_s for one in trials}
    blocks = sorted({one.block for one in trials})
    return [took["container", block] / took["bare", block] for block in blocks]


def middle(of: list[float]) -> float:
    """The Hodges-Lehmann estimate of ratios: the median of the geometric means of all their pairs."""
    logs = [math.log(ratio) for ratio in of]
    means = sorted((a + b) / 2 for n, a in enumerate(logs) for b in logs[n:])
    half = len(means) // 2
    return math.exp((means[half] + means[~half]) / 2)


def burner(blocks: int, engine: str = "runc", app: str = f"app={BURNER}") -> list[str]:
    """A run of it on the bare host and in a container, both on the same one CPU."""
    asked = [app, "sizes=1", "provisioning=pinned", f"engine={engine}", "measure.design=pairs"]
    asked += ["measure.target=null", f"measure.blocks={blocks}", "measure.pilot=1"]
    return ["run", "platform-overhead", *(word for setting in asked for word in ("--set", setting))]


@contextmanager
def slowed(contend: Home, factor: float, period_us: int = 100_000) -> Iterator[list[str]]:
    """Whoever runs in the container of one CPU is throttled to 1/factor of it, by a quota of the group above its own."""

    def above() -> set[Path]:
        return {group.parent for group in groups_of(contend, "pinned-1-cpu")}

    with _written(above, factor, period_us) as seen:
        yield seen


@contextmanager
def changed(contend: Home, factor: float) -> Iterator[list[str]]:
    """The same by the container's own quota, as `docker update --cpus` would: a limit that is not what was asked for."""
    with _written(lambda: set(groups_of(contend, "pinned-1-cpu")), factor) as seen:
        yield seen


@contextmanager
def updated(contend: Home, *words: str) -> Iterator[list[str]]:
    """`podman update` with these words, once, of the container of one CPU, after its first trial has begun."""
    done = threading.Event()
    seen: list[str] = []

    def watch() -> None:
        while not seen and not done.wait(0.05):
            for row in containers_of(contend, "pinned-1-cpu"):
                line = ["podman", "update", *words, row["name"]]
                if subprocess.run(line, capture_output=True, check=False).returncode == 0:
                    seen.append(row["name"])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


@contextmanager
def _written(groups: Callable[[], set[Path]], factor: float, period_us: int = 100_000) -> Iterator[list[str]]:
    done = threading.Event()
    seen: list[str] = []

    def watch() -> None:
        while not done.is_set():
            found: set[Path] = set()
            with suppress(OSError):  # others' groups go while the tree is searched
                found = groups()
            for group in found:
                for name, text in (
                    ("cpu.max", f"{round(period_us / factor)} {period_us}"),
                    ("cpu.cfs_period_us", f"{period_us}"),
                    ("cpu.cfs_quota_us", f"{round(period_us / factor)}"),
                ):
                    file = group / name
                    with suppress(OSError):  # of the other kind of cgroup, or gone with its container
                        if file.read_text().split()[0] != text.split()[0]:
                            file.write_text(text)
                            seen.append(str(group))
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


@contextmanager
def group_of(cpus: float) -> Iterator[Path]:
    """A control group with such a quota, and so many shares that others on this machine are no part of the test."""
    at = Path("/sys/fs/cgroup/cpu") if Path("/sys/fs/cgroup/cpu").is_dir() else Path("/sys/fs/cgroup")
    group = at / f"planted-quota-{os.getpid()}"
    group.mkdir()
    try:
        for name, text in (
            ("cpu.max", f"{round(cpus * 100_000)} 100000"),
            ("cpu.cfs_quota_us", str(round(cpus * 100_000))),
            ("cpu.weight", "10000"),
            ("cpu.shares", "200000"),
        ):
            if (group / name).exists():
                (group / name).write_text(text)
        yield group
    finally:
        until = time.monotonic() + 5
        while group.exists():
            with suppress(OSError):  # the last one is on its way out
                group.rmdir()
            assert time.monotonic() < until
            time.sleep(0.01)


def groups_of(contend: Home, place: str) -> list[Path]:
    """cgroups of the place's container, as its run's rows will name them; found by the container's own processes."""
    found = []
    for row in containers_of(contend, place):
        found += [p.parent for p in Path("/sys/fs/cgroup").glob(f"**/*{row['name']}*/cgroup.procs")]
        found += [p.parent for p in Path("/sys/fs/cgroup").glob(f"**/{row['party']}/cgroup.procs")]
    return found


def containers_of(contend: Home, place: str) -> list[dict[str, Any]]:
    """Rows of the place's containers, once a trial has begun: contend reads back what a place got when that is made."""
    found: list[dict[str, Any]] = []
    for run in contend.runs.glob("platform-overhead-*"):
        lines = ledger(run)
        if any(line["event"] == "trial-start" for line in lines):
            made = (line for line in lines if line.get("kind") == "container")
            found += [line for line in made if str(line.get("party", "")).endswith(place)]
    return found


def ledger(run: Path) -> list[dict[str, Any]]:
    try:
        lines = (run / "ledger.ndjson").read_text().splitlines()
    except OSError:
        return []
    parsed = []
    for line in lines:
        try:
            parsed.append(json.loads(line))
        except ValueError:  # half written
            continue
    return parsed


def planted(contend: Home) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The headline comparison and the findings of such a run."""
    document = json.loads((contend.the_run() / "findings.json").read_text())
    (cell,) = (c for c in document["cells"] if c["metric"]["primary"])
    return cell["estimate"], document["findings"]
