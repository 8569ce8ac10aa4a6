"""`contend list`: what there is by name."""

from __future__ import annotations

from pathlib import Path

import click

from contend.cli.common import print_answer, runs_option, shown
from contend.errors import BadInput
from contend.store.damage import json_object
from contend.text.printable import printable

PLATFORMS = {
    "bare": "this host as it is; a cgroup only to account and to clean up",
    "container": "docker, podman, crun or runc, whichever is there; quota (vanilla) or cpuset (pinned)",
    "vm": "a virtual machine by QEMU, or libvirt, booted once a party; emulated where KVM boots none, and labelled so",
    "container-in-vm": "a container by crun in such a machine, with the size that is asked for",
}
PROBES = {
    "host": "CPU by state and core, run queue, pressure, disk queue, network; absolute deadlines, own cost published",
    "processes": "CPU time, run delay, switches, faults, memory and I/O of every process, by BPF, taskstats or /proc",
    "run-delay": "time a party's tasks were runnable and waited, from schedstat",
    "snapshot": "counters before and after every trial: steal, pressure, throttling, disk, switches",
}


KINDS = ["studies", "scenarios", "workloads", "platforms", "probes"]


@click.command("list", short_help="Show what there is by name.")
@click.argument("what", type=click.Choice([*KINDS, "runs"]), required=False)
@runs_option
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(what: str | None, runs: Path, as_json: bool) -> int:
    """Show studies, scenarios and workloads (yours too), platforms and probes; or `runs`, the runs and recordings here."""
    kinds = [what] if what else KINDS
    entries_by_kind = {kind: _runs(runs) if kind == "runs" else _entries(kind) for kind in kinds}
    if as_json:
        print_answer(", ".join(f"{len(of)} {kind}" for kind, of in entries_by_kind.items()), entries_by_kind)
        return 0
    for kind, entries in entries_by_kind.items():
        print(kind)
        width = max((len(name) for name in entries), default=0)
        for name, text in entries.items():
            print(f"  {name:<{width}}  {text}")
    return 0


def _runs(folder: Path) -> dict[str, str]:
    """Directories of runs and recordings, oldest first, and the command that each came from."""
    from contend.store.directory import PLAN_FILE, SAMPLE_FILE, WATCH_FILE

    marks = [mark for name in (PLAN_FILE, SAMPLE_FILE, WATCH_FILE) for mark in folder.glob(f"*/{name}")]
    commands = {}
    for mark in sorted(marks, key=lambda path: path.lstat().st_mtime):
        try:
            document = json_object(mark)
        except (BadInput, FileNotFoundError):  # being written, cut off, or no file
            document = {}
        commands[printable(str(shown(mark.parent.absolute())))] = printable(
            str(document.get("line") or document.get("command") or "")
        )
    return commands


def _entries(kind: str) -> dict[str, str]:
    if kind == "studies":
        from contend.studies.registry import described

        return dict(described())
    if kind == "scenarios":
        from contend.studies.scenarios import titles

        return titles()
    if kind == "workloads":
        from contend.workloads.install import missing
        from contend.workloads.load import load as load_workload
        from contend.workloads.load import names

        described_as = {}
        for name in names():
            workload = load_workload(name)
            absent = missing(workload)
            described_as[name] = workload.title + (f"  (not here: {', '.join(absent)})" if absent else "")
        return described_as
    return PLATFORMS if kind == "platforms" else PROBES
