"""Removal of what a run's ledger announced, after the run and after a crash; and what of it is on this host, by kind.

Removal is idempotent, goes newest first, tries everything, and touches only what the run itself can have made: the ledger
must be one to obey (`contend.platforms.obedience`), and each name one that a thing of its kind and run can have
(`contend.platforms.confinement`). A run whose ledger is locked is alive and is left alone unless that is forced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contend import names
from contend.clock import SystemClock
from contend.errors import HostFailed
from contend.platforms import (
    cgroups,
    confinement,
    engines,
    groups,
    hotplug,
    kin,
    network,
    obedience,
    procfs,
    resctrl,
    scope,
    treatments,
)
from contend.platforms.confinement import OfRun
from contend.platforms.guests import image
from contend.platforms.removers import Removed, Removers, Row
from contend.store import state
from contend.store.ledger import SCHEMA_VERSION, Ledger, append_line, is_locked


def remove_leftovers(
    directory: Path, removers: Removers, *, force: bool = False, ledger: Ledger | None = None
) -> list[Removed]:
    """Remove what the ledger of a run directory announced and never recorded as removed, and record it.

    `ledger`: the open ledger, for a run that cleans up after its own earlier crash. Raises HostFailed for a
    run that is alive, unless forced, and for one that is only read (`obedience`) and names something. What cannot be removed
    is returned with the reason (`why`); the rest is gone.
    """
    standing = obedience.judge(directory)
    if isinstance(standing, obedience.ReadOnly):
        if not standing.left():
            return []
        raise _not_obeyed(standing)
    return remove_obeyed(standing, removers, force=force, ledger=ledger)


def own(run_id: str, directory: Path) -> None:
    """Take up a run again: this user's state directory points at it from now on. Raises HostFailed for one whose ledger is
    only read and names something, which would be obeyed from then on."""
    standing = obedience.judge(directory)
    if isinstance(standing, obedience.ReadOnly):
        if standing.left():
            raise _not_obeyed(standing)
        state.register(run_id, directory)


def remove_obeyed(
    standing: obedience.Obeyed, removers: Removers, *, force: bool = False, ledger: Ledger | None = None
) -> list[Removed]:
    """As `remove_leftovers`, of a run that was judged."""
    if not standing.ledger.exists():
        return []
    if ledger is None and is_locked(standing.ledger) and not force:
        raise HostFailed(
            f"the run in {standing.directory} is alive",
            hint="stop it with Ctrl-C; or --force to end it from outside",
        )
    of = OfRun(standing.run_id, standing.directory, standing.ledger.parent)
    done: list[Removed] = []
    left, wrong = _of_this_run(standing)
    done += wrong
    for group in removers.made:
        group.before([row for row in left if str(row["kind"]).startswith(group.prefix)])
    with _appender(standing.ledger, ledger) as removed:
        for row in left:
            kind, name = str(row["kind"]), str(row["name"])
            if removers.is_made(kind):
                continue
            result = removers.one(kind, name, row, of)
            done.append(result)
            if not result.why:
                removed(kind, name)
        done += _end_recorded(standing.run_id)
        if left or done:  # after the processes that make them, and from the ledger as those have left it
            left, _ = _of_this_run(obedience.again(standing))
        for group in removers.made:
            rows = [row for row in left if str(row["kind"]).startswith(group.prefix)]
            for result in group.remove(rows) if rows else ():
                done.append(result)
                if not result.why:
                    removed(result.kind, result.name)
    if standing.damaged:
        lines = ", ".join(map(str, standing.damaged[:5]))
        why = f"line {lines} cannot be read, and may name more; once nothing of the run is left, remove those lines"
        done.append(Removed("ledger", str(standing.ledger), was_there=True, why=why))
    return done


def _not_obeyed(standing: obedience.ReadOnly) -> HostFailed:
    return HostFailed(
        f"the ledger of {standing.directory} names things that may still be there, and is not obeyed: {standing.reason}",
        hint=f"{standing.hint}; to go on without them, move {standing.directory}/{state.LEDGER} away",
    )


def _of_this_run(standing: obedience.Obeyed) -> tuple[list[dict[str, Any]], list[Removed]]:
    """Rows to act on, each with its run; and those that name another run, or nothing."""
    rows: list[dict[str, Any]] = []
    wrong: list[Removed] = []
    for row in standing.left():
        kind, name, run = row.get("kind"), row.get("name"), row.get("run", standing.run_id)
        if not isinstance(kind, str) or not isinstance(name, str) or not name or "\0" in name:
            wrong.append(Removed(str(kind), str(name), was_there=True, why="the ledger's row is damaged"))
        elif run != standing.run_id:
            why = f"the ledger's row is of another run, '{run}'"
            wrong.append(Removed(kind, name, was_there=True, why=why))
        else:
            rows.append({**row, "run": standing.run_id})
    return rows, wrong


def _end_recorded(run_id: str) -> list[Removed]:
    """End whatever else is the run's for certain: it may be making what is removed next."""
    recorded = kin.Recorded(run_id)
    pids = sorted(recorded.find())
    stuck = procfs.kill_until_gone(recorded.find)
    why = "it does not die of SIGKILL"
    return [Removed("process", str(pid), True, why if pid in stuck else "") for pid in pids]


@contextmanager
def _appender(path: Path, ledger: Ledger | None) -> Iterator[Callable[[str, str], None]]:
    """How 'removed' rows get into the ledger: through its owner, or beside it when it was forced."""
    if ledger is not None:
        yield ledger.removed
        return
    try:
        writer = Ledger(path)
    except HostFailed:
        writer = None  # it is forced; or a stranger, who may read it, has locked it
    if writer is not None:
        with writer:
            yield writer.removed
    else:
        clock = SystemClock()
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)

        def append(kind: str, name: str) -> None:
            row = {"schema_version": SCHEMA_VERSION, "at_ns": clock.monotonic_ns(), "utc": clock.utc()}
            with suppress(
                HostFailed
            ):  # as `Ledger.removed`: a full disk does not stop the removal of the rest
                append_line(fd, {**row, "event": "removed", "kind": kind, "name": name, "forced": True}, path)

        try:
            yield append
        finally:
            os.close(fd)


def _cgroup(name: str, row: Row, of: OfRun) -> bool:
    return cgroups.remove(confinement.group(name, of))


def _controller(name: str, row: Row, of: OfRun) -> bool:
    return groups.disable_controller(*confinement.controller(name))


def _monitor(name: str, row: Row, of: OfRun) -> bool:
    return resctrl.remove(confinement.monitor(name, of))


def _process(name: str, row: Row, of: OfRun) -> bool:
    """Remove the run's recorded processes (`kin`); and those of an older contend's row that also carry its mark."""
    recorded = kin.Recorded(of.run_id, _of_older(row, of.run_id))
    there = bool(recorded.find())
    if left := procfs.kill_until_gone(recorded.find):
        raise HostFailed(f"processes {sorted(left)} do not die of SIGKILL", hint="stuck in the kernel")
    return there


def _of_older(row: Row, run_id: str) -> list[kin.Identity]:
    """The leader that the row names and what is in its session, where they carry the mark as well: the row alone has what
    everybody can read in /proc, and the mark what everybody can write."""
    pid, start = row.get("pid"), row.get("start_ticks")
    if not isinstance(pid, int) or not isinstance(start, int) or row.get("boot_id") != procfs.boot_id():
        return []
    leader = procfs.stat(pid)
    if leader is not None and leader.start_ticks != start:
        return []
    identities = []
    for process in procfs.processes(procfs.in_session(pid)):
        mark = procfs.marks(process.pid)
        if mark is not None and mark[0] == run_id:
            identities.append((process.pid, process.start_ticks, process.session))
    return identities


def _netns(name: str, row: Row, of: OfRun) -> bool:
    if not of.hashed(name, f"{names.PREFIX}-"):
        raise confinement.stranger(name, "network namespaces")
    return network.remove_namespace(name)


def _link(name: str, row: Row, of: OfRun) -> bool:
    if not of.hashed(name, "ctd"):
        raise confinement.stranger(name, "links")
    return network.remove_link(name)


def _container(name: str, row: Row, of: OfRun) -> bool:
    return engines.remove_container(str(row.get("engine", "")), name, of.run_id)


def _image(name: str, row: Row, of: OfRun) -> bool:
    if not of.named(name):
        raise confinement.stranger(name, "images")
    return engines.remove_image(str(row.get("engine", "")), name)


def _guest_image(name: str, row: Row, of: OfRun) -> bool:
    if Path(name).parent != image.home():
        raise confinement.stranger(name, "half-built images")
    return image.remove_half(Path(name), of.run_id)


def _directory(name: str, row: Row, of: OfRun) -> bool:
    return confinement.remove_directory(name, of)


def _file(name: str, row: Row, of: OfRun) -> bool:
    return confinement.remove_file(name, of)


def _scope(name: str, row: Row, of: OfRun) -> bool:
    if not of.named(name.removesuffix(".scope")):
        raise confinement.stranger(name, "scopes")
    return scope.remove(name)


def _cpus(name: str, row: Row, of: OfRun) -> bool:
    if of.kept is None:
        raise confinement.stranger(name, "CPUs")
    return hotplug.remove(name, row, of.kept)


def _changed(name: str, row: Row, of: OfRun) -> bool:
    return treatments.restore(str(row["kind"]), name, row)


HOST = Removers(
    {
        "cgroup": _cgroup,
        "cgroup-controller": _controller,
        resctrl.KIND: _monitor,
        "process": _process,
        "netns": _netns,
        "veth": _link,
        "link": _link,
        "container": _container,
        "image": _image,
        "bundle": _directory,  # maybe of another state directory
        image.KIND: _guest_image,
        "directory": _directory,
        "file": _file,
        "scope": _scope,
        hotplug.KIND: _cpus,
        **dict.fromkeys(treatments.KINDS, _changed),
    }
)
"""Of what contend itself makes on this host."""
