"""The coordinator's record of the hosts of its run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from contend.fleet.clocks import clock_record
from contend.store.directory import PLAN_FILE, RunDirectory
from contend.store.hosts import HOSTS_FILE, folder_of, states_of_hosts

if TYPE_CHECKING:
    from contend.store.host_record import Offset

SHOWN = ("machine", "cpu", "cpus", "memory_gib", "os", "kernel", "virtualised")
SMALL = ("scenario.yaml", PLAN_FILE, "environment.json", "ledger.ndjson")


@dataclass
class HostState:
    """How one host fares. state: waiting, running, lost, given up, failed or ended; why: of the last but one."""

    name: str
    state: str = "waiting"
    why: str = ""
    hint: str = ""
    part: str = ""  # the name of its own run directory
    stopped: str = ""  # why its orchestrator ended: planned blocks done, target reached …
    failures: int = 0  # trials of it that gave no result
    losses: int = 0  # how often it was lost
    late_ns: list[int] = field(default_factory=list)  # of starts of blocks after the moment that was named
    first: Offset | None = None
    now: Offset | None = None  # that rows and starts go by
    last: Offset | None = None
    took_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "why": self.why,
            "part": self.part,
            "stopped": self.stopped,
            "failures": self.failures,
            "losses": self.losses,
            "start_late_ns": max(self.late_ns, default=None),
            "clock": None if self.first is None else clock_record(self.first, self.last).to_json(),
        }


def host_seed(seed: int, host: str) -> int:
    """Seed of a host's own order of trials.

    >>> host_seed(7, "a") == host_seed(7, "a"), host_seed(7, "a") == host_seed(7, "b")
    (True, False)
    """
    return random.Random(f"{seed}/{host}").randrange(10**6)


def write_hosts(
    run: RunDirectory, states: Iterable[HostState], kept: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Write hosts.json. kept: entries of hosts that are not followed any more."""
    hosts = {state.name: (kept or {}).get(state.name) or state.to_json() for state in states}
    run.write_json(HOSTS_FILE, {"schema_version": 1, "hosts": hosts})


def write_environment(run: RunDirectory) -> None:
    """Write each host's description and clock into the run's environment."""
    environment = run.environment()
    by_host = {}
    for host, state in states_of_hosts(run).items():
        own = folder_of(run, host) / "environment.json"
        known = RunDirectory(own.parent).environment() if own.exists() else {}
        by_host[host] = {key: known[key] for key in SHOWN if key in known} | {"clock": state["clock"]}
    run.write_json("environment.json", environment | {"hosts": by_host})


def write_parts(run: RunDirectory) -> None:
    """Write each host's rows beside the files fetched from it, so that its directory is a run of its own."""
    rows: dict[str, list[str]] = {}
    for row in run.rows(run.plan()):
        rows.setdefault(str(row["host"]), []).append(
            json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        )
    for host, lines in rows.items():
        folder = folder_of(run, host)
        if (folder / PLAN_FILE).exists():
            RunDirectory(folder).write_text("trials.ndjson", "\n".join(lines) + "\n")
