"""What a fleet's run directory says of its hosts: hosts.json, and a run directory of its own for each below hosts/."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.errors import BadInput
from contend.fleet.results import Done
from contend.store.damage import json_object, note
from contend.store.directory import PLAN_FILE, Row, RunDirectory
from contend.store.rows import HostsFile, wrong

if TYPE_CHECKING:
    from contend.fleet.clocks import Offset

HOSTS_FILE = "hosts.json"
ENDED = "ended"
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
    last: Offset | None = None
    took_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        from contend.fleet.clocks import clock_record

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
    """Of a host's own order of trials.

    >>> host_seed(7, "a") == host_seed(7, "a"), host_seed(7, "a") == host_seed(7, "b")
    (True, False)
    """
    return random.Random(f"{seed}/{host}").randrange(10**6)


def folder_of(run: RunDirectory, host: str) -> Path:
    return run.path / "hosts" / host


def write_hosts(
    run: RunDirectory, states: Iterable[HostState], kept: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """hosts.json. kept: what was known of a host and stays."""
    hosts = {state.name: (kept or {}).get(state.name) or state.to_json() for state in states}
    run.write_json(HOSTS_FILE, {"schema_version": 1, "hosts": hosts})


def write_environment(run: RunDirectory) -> None:
    """What each host is, and its clock, into the run's environment."""
    environment = run.environment()
    told = {}
    for host, state in told_of_hosts(run).items():
        own = folder_of(run, host) / "environment.json"
        known = RunDirectory(own.parent).environment() if own.exists() else {}
        told[host] = {key: known[key] for key in SHOWN if key in known} | {"clock": state["clock"]}
    run.write_json("environment.json", environment | {"hosts": told})


def write_parts(run: RunDirectory) -> None:
    """Each host's rows beside what was fetched of it, so that its directory is a run by itself."""
    rows: dict[str, list[str]] = {}
    for row in run.rows(run.plan()):
        rows.setdefault(str(row["host"]), []).append(
            json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        )
    for host, lines in rows.items():
        folder = folder_of(run, host)
        if (folder / PLAN_FILE).exists():
            RunDirectory(folder).write_text("trials.ndjson", "\n".join(lines) + "\n")


def on_one_clock(rows: Iterable[Row]) -> list[Row]:
    """Rows with their moments on the starting machine's clock, by their host's offset; for what shows several hosts.

    >>> on_one_clock([{"started_ns": 900, "ended_ns": 950, "clock_offset": {"offset_ns": 500}}])[0]["started_ns"]
    400
    """
    found = []
    for row in rows:
        offset_ns = int((row.get("clock_offset") or {}).get("offset_ns", 0))
        moments = {
            key: int(row[key]) - offset_ns for key in ("started_ns", "ended_ns") if row.get(key) is not None
        }
        found.append({**row, **moments})
    return found


def hosts_of_run(run: RunDirectory) -> tuple[str, ...]:
    """The hosts of a fleet's run; none of another one."""
    plan = run.plan()
    return tuple(plan["fleet"]["hosts"]) if "fleet" in plan else ()


def refuse_hosts(run: RunDirectory, what: str) -> None:
    """Raise BadInput for a run on several hosts: `what` is of one."""
    if hosts_of_run(run):
        raise BadInput(
            f"{run.id} is a run on several hosts: {what} takes one host's", hint=f"name {run.path}/hosts/HOST"
        )


def refuse_part(run: RunDirectory) -> None:
    """Raise BadInput for a host's part of a run on several: it was made elsewhere, and cannot be gone on with here."""
    whole = run.path.parent.parent
    if run.path.parent.name == "hosts" and (whole / PLAN_FILE).exists() and hosts_of_run(RunDirectory(whole)):
        raise BadInput(f"'{run.path}' is one host's part of a run", hint=f"contend run --resume {whole}")


def told_of_hosts(run: RunDirectory) -> Mapping[str, Mapping[str, Any]]:
    """hosts.json by host; empty where the coordinator was killed before it could write it."""
    path = run.path / HOSTS_FILE
    try:
        document = json_object(path)
    except FileNotFoundError:
        return {}
    except BadInput as error:
        note(path, "", error.message)
        return {}
    if why := wrong(HostsFile, document):
        note(path, "", why)
        return {}
    found: Mapping[str, Mapping[str, Any]] = document["hosts"]
    return found


def done(run: RunDirectory) -> dict[str, Done]:
    """By host, those without any row too."""
    plan = run.plan()
    rows = Counter(
        host
        for host, _ in {
            (r["host"], r["trial"]) for r in run.rows(plan) if r["phase"] == "counted" and r["status"] == "ok"
        }
    )
    found = {}
    for host in hosts_of_run(run):
        own = folder_of(run, host) / PLAN_FILE
        trials = plan["trials"]
        try:
            if own.exists():
                trials = RunDirectory(own.parent).plan()["trials"]
        except BadInput as error:
            note(own, "", error.message)
        except PermissionError as error:
            note(own, "", error.strerror or str(error))
        found[host] = Done(rows[host], sum(1 for trial in trials if trial[2] == "counted"))
    return found


def missing(run: RunDirectory) -> Iterator[str]:
    """What is not there, in a line for each host that has not ended or that had trials without a result."""
    told, counts = told_of_hosts(run), done(run)
    for host, count in counts.items():
        state = told.get(host, {})
        if state.get("state") != ENDED:
            said = state.get("why") or state.get("state") or "it was not heard of"
            yield f"{host}: {count.finished} of {count.planned} trials ({said})"
        elif state.get("failures"):
            yield f"{host}: {state['failures']} trials gave no result"
