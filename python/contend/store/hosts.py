"""The hosts of a fleet's run as they lie on disk: hosts.json, and a run directory of its own for each below hosts/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from contend.errors import BadInput
from contend.store.damage import json_object, note
from contend.store.directory import PLAN_FILE, Row, RunDirectory
from contend.store.file_shapes import HostsFile
from contend.store.host_record import Done
from contend.store.rows import wrong

HOSTS_FILE = "hosts.json"
ENDED = "ended"


def folder_of(run: RunDirectory, host: str) -> Path:
    return run.path / "hosts" / host


def on_one_clock(rows: Iterable[Row]) -> list[Row]:
    """Rows with their moments on the starting machine's clock, by their host's offset; for what shows several hosts.

    >>> on_one_clock([{"started_ns": 900, "ended_ns": 950, "clock_offset": {"offset_ns": 500}}])[0]["started_ns"]
    400
    """
    moved = []
    for row in rows:
        offset_ns = int((row.get("clock_offset") or {}).get("offset_ns", 0))
        moments = {
            key: int(row[key]) - offset_ns for key in ("started_ns", "ended_ns") if row.get(key) is not None
        }
        moved.append({**row, **moments})
    return moved


def hosts_of_run(run: RunDirectory) -> tuple[str, ...]:
    """Hosts of a fleet's run; none of another run."""
    plan = run.plan()
    return tuple(plan["fleet"]["hosts"]) if "fleet" in plan else ()


def refuse_hosts(run: RunDirectory, what: str) -> None:
    """Raise BadInput for a run on several hosts: `what` works on one."""
    if hosts_of_run(run):
        raise BadInput(
            f"{run.id} is a run on several hosts: {what} takes one host's", hint=f"name {run.path}/hosts/HOST"
        )


def refuse_part(run: RunDirectory) -> None:
    """Raise BadInput for a host's part of a run on several: it was made elsewhere, and cannot be gone on with here."""
    whole = run.path.parent.parent
    if run.path.parent.name == "hosts" and (whole / PLAN_FILE).exists() and hosts_of_run(RunDirectory(whole)):
        raise BadInput(f"'{run.path}' is one host's part of a run", hint=f"contend run --resume {whole}")


def states_of_hosts(run: RunDirectory) -> Mapping[str, Mapping[str, Any]]:
    """Read hosts.json, by host; empty where the coordinator was killed before it could write it."""
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
    by_host: Mapping[str, Mapping[str, Any]] = document["hosts"]
    return by_host


def done(run: RunDirectory) -> dict[str, Done]:
    """Count finished trials by host, also of hosts without any row."""
    plan = run.plan()
    rows = Counter(
        host
        for host, _ in {
            (r["host"], r["trial"]) for r in run.rows(plan) if r["phase"] == "counted" and r["status"] == "ok"
        }
    )
    by_host = {}
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
        by_host[host] = Done(rows[host], sum(1 for trial in trials if trial[2] == "counted"))
    return by_host


def missing(run: RunDirectory) -> Iterator[str]:
    """Name what is missing, in a line for each host that has not ended or that had trials without a result."""
    states, counts = states_of_hosts(run), done(run)
    for host, count in counts.items():
        state = states.get(host, {})
        if state.get("state") != ENDED:
            reason = state.get("why") or state.get("state") or "it was not heard of"
            yield f"{host}: {count.finished} of {count.planned} trials ({reason})"
        elif state.get("failures"):
            yield f"{host}: {state['failures']} trials gave no result"
