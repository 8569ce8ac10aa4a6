"""`contend list`: what there is by name."""

from __future__ import annotations

import json
import sys

import click

PLATFORMS = {
    "bare": "this host as it is; a cgroup only to account and to clean up",
    "container": "docker, podman, crun or runc, whichever is there; quota (vanilla) or cpuset (pinned)",
}
PROBES = {
    "host": "CPU by state and core, run queue, pressure, disk queue, network; absolute deadlines, own cost published",
    "run-delay": "time a party's tasks were runnable and waited, from schedstat",
    "snapshot": "counters before and after every trial: steal, pressure, throttling, disk, switches",
}


@click.command("list", short_help="Show what there is by name.")
@click.argument("what", type=click.Choice(["scenarios", "workloads", "platforms", "probes"]), required=False)
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(what: str | None, as_json: bool) -> int:
    """Show built-in scenarios, workloads (yours too), platforms and probes."""
    kinds = [what] if what else ["scenarios", "workloads", "platforms", "probes"]
    found = {kind: _entries(kind) for kind in kinds}
    if as_json:
        json.dump(found, sys.stdout, indent=1)
        print()
        return 0
    for kind, entries in found.items():
        print(kind)
        width = max((len(name) for name in entries), default=0)
        for name, text in entries.items():
            print(f"  {name:<{width}}  {text}")
    return 0


def _entries(kind: str) -> dict[str, str]:
    if kind == "scenarios":
        from contend.scenario import builtin_names, load

        return {name: load(name).title for name in builtin_names()}
    if kind == "workloads":
        from contend.workloads.install import missing
        from contend.workloads.load import load as load_workload
        from contend.workloads.load import names

        found = {}
        for name in names():
            workload = load_workload(name)
            absent = missing(workload)
            found[name] = workload.title + (f"  (not here: {', '.join(absent)})" if absent else "")
        return found
    return PLATFORMS if kind == "platforms" else PROBES
