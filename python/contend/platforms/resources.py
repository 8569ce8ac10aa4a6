"""Everything contend makes on a host, by kind, and how each is removed again: after a run and after a crash.

Removal is idempotent, goes newest first, tries everything, and touches only what carries contend's name or
mark. A run whose ledger is locked is alive and is left alone unless that is forced.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.clock import SystemClock
from contend.errors import HostFailed
from contend.ledger import SCHEMA_VERSION, Ledger, append_line, is_locked, leftovers
from contend.platforms import cgroups, engines, groups, hotplug, names, network, procfs, scope
from contend.platforms.guests import image

Row = Mapping[str, Any]
# How the kinds of things begin that programs of a run make: contend.clouds.openstack, contend.clouds.local.removal,
# contend.elsewhere.removal.
ON_CLOUDS, OF_STORMS, ELSEWHERE = "openstack-", "local-", "elsewhere-"


@dataclass(frozen=True, slots=True)
class Removed:
    """One thing that removal was tried on. `was_there` is False when it had gone already."""

    kind: str
    name: str
    was_there: bool
    why: str = ""  # why it is still there; it stays in the ledger then
    whose: str = ""  # of what no ledger told of: the run, and what became of it

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.name,
            "was_there": self.was_there,
            "why": self.why,
            "whose": self.whose,
        }


def remove_leftovers(
    ledger_path: Path, *, force: bool = False, ledger: Ledger | None = None
) -> list[Removed]:
    """Remove what the ledger announced and never recorded as removed, and record it.

    `ledger`: the open ledger, for a run that cleans up after its own earlier crash. Raises HostFailed for a
    run that is alive, unless forced. What cannot be removed is returned with the reason (`why`); the rest is gone.
    """
    if not ledger_path.exists():
        return []
    if ledger is None and is_locked(ledger_path) and not force:
        raise HostFailed(
            f"the run in {ledger_path.parent} is alive",
            hint="stop it with Ctrl-C; or --force to end it from outside",
        )
    done: list[Removed] = []
    _let_calls_end([row for row in leftovers(ledger_path) if str(row["kind"]).startswith(OF_STORMS)])
    with _appender(ledger_path, ledger) as removed:
        for row in leftovers(ledger_path):
            kind, name = str(row["kind"]), str(row["name"])
            if kind.startswith((ON_CLOUDS, OF_STORMS, ELSEWHERE)):
                continue
            result = remove_one(kind, name, row, ledger_path.parent)
            done.append(result)
            if not result.why:
                removed(kind, name)
        # After the processes that make them, and from the ledger as those have left it.
        left = leftovers(ledger_path)
        remote = [row for row in left if str(row["kind"]).startswith(ON_CLOUDS)]
        local = [row for row in left if str(row["kind"]).startswith(OF_STORMS)]
        users = [row for row in left if str(row["kind"]).startswith(ELSEWHERE)]
        for result in (*_remove_local(local), *_remove_remote(remote), *_remove_elsewhere(users)):
            done.append(result)
            if not result.why:
                removed(result.kind, result.name)
    return done


def _remove_remote(rows: list[dict[str, Any]]) -> list[Removed]:
    if not rows:
        return []
    from contend.clouds.removal import remove

    return [Removed(gone.kind, gone.name, gone.was_there, gone.why) for gone in remove(rows)]


def _let_calls_end(rows: list[dict[str, Any]]) -> None:
    if rows:
        from contend.clouds.local.removal import let_calls_end

        let_calls_end(rows)


def _remove_local(rows: list[dict[str, Any]]) -> list[Removed]:
    if not rows:
        return []
    from contend.clouds.local.removal import remove

    return [Removed(*gone) for gone in remove(rows)]


def _remove_elsewhere(rows: list[dict[str, Any]]) -> list[Removed]:
    if not rows:
        return []
    from contend.elsewhere.removal import remove

    return [Removed(*gone) for gone in remove(rows)]


def remove_one(kind: str, name: str, row: Row, run_directory: Path) -> Removed:
    """Remove one thing that a row of a ledger, or one like it, tells of."""
    remover = _REMOVERS.get(kind)
    if remover is None:
        return Removed(kind, name, was_there=True, why=f"contend does not know how to remove a {kind}")
    try:
        return Removed(kind, name, was_there=remover(name, row, run_directory))
    except (HostFailed, OSError) as error:
        return Removed(kind, name, was_there=True, why=str(error))


@contextmanager
def _appender(path: Path, ledger: Ledger | None) -> Iterator[Callable[[str, str], None]]:
    """How 'removed' rows get into the ledger: through its owner, or beside it when it was forced."""
    if ledger is not None:
        yield ledger.removed
    elif not is_locked(path):
        with Ledger(path) as own:
            yield own.removed
    else:
        clock = SystemClock()
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

        def append(kind: str, name: str) -> None:
            row = {"schema_version": SCHEMA_VERSION, "at_ns": clock.monotonic_ns(), "utc": clock.utc()}
            append_line(fd, {**row, "event": "removed", "kind": kind, "name": name, "forced": True}, path)

        try:
            yield append
        finally:
            os.close(fd)


def _cgroup(name: str, row: Row, run_directory: Path) -> bool:
    return cgroups.remove(Path(name))


def _controller(name: str, row: Row, run_directory: Path) -> bool:
    parent, _, controller = name.rpartition(":")
    return groups.disable_controller(Path(parent), controller)


def _process(name: str, row: Row, run_directory: Path) -> bool:
    """By the mark in the environment; by the session where a program overwrote that (see `_session_of`)."""
    run_id, party = str(row.get("run", "")), str(row.get("party", ""))

    def find() -> set[int]:
        return (procfs.marked(run_id, party=party) if run_id else set()) | _session_of(row)

    there = bool(find())
    if left := procfs.kill_until_gone(find):
        raise HostFailed(f"processes {sorted(left)} do not die of SIGKILL", hint="stuck in the kernel")
    return there


def _session_of(row: Row) -> set[int]:
    """Members of the recorded session that are certainly ours.

    The kernel does not give a pid out again while a session has its number. So in the same boot, with the
    leader alive and started when the ledger says, or gone and the member running the recorded program, the
    session is the recorded one.
    """
    pid, start = row.get("pid"), row.get("start_ticks")
    if pid is None or start is None or row.get("boot_id") != procfs.boot_id():
        return set()
    leader = procfs.stat(int(pid))
    if leader is not None and leader.start_ticks != int(start):
        return set()
    found = procfs.in_session(int(pid))
    if leader is None:
        found = {p for p in found if procfs.executable(p) == row.get("exe")}
    return found - procfs.ancestors(os.getpid())


def _netns(name: str, row: Row, run_directory: Path) -> bool:
    return network.remove_namespace(name)


def _link(name: str, row: Row, run_directory: Path) -> bool:
    return network.remove_link(name)


def _container(name: str, row: Row, run_directory: Path) -> bool:
    return engines.remove_container(str(row.get("engine", "")), name, str(row.get("run", "")))


def _directory(name: str, row: Row, run_directory: Path) -> bool:
    """A directory inside the run's own, or one that carries contend's name; nothing mounted below it."""
    path = Path(name)
    inside = (
        path.resolve().is_relative_to(run_directory.resolve()) and path.resolve() != run_directory.resolve()
    )
    if not inside and not path.name.startswith(f"{names.PREFIX}-"):
        raise HostFailed(f"{path} is not one of contend's directories", hint="the ledger names a stranger")
    if not path.is_dir() or path.is_symlink():
        return False
    if mounted := [m for m in _mounts() if m.is_relative_to(path.resolve())]:
        raise HostFailed(f"{mounted[0]} is still mounted", hint=f"umount {mounted[0]}")
    _remove_tree(path)
    return True


def _remove_tree(path: Path) -> None:
    """rmtree beside a run that was forced to end and may be making and removing files below at this moment."""
    for attempt in range(20):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass  # somebody else was quicker: look again
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == 19:
                raise
        if not path.exists():
            return
        time.sleep(0.02)


def _file(name: str, row: Row, run_directory: Path) -> bool:
    path = Path(name)
    if not path.parent.resolve().is_relative_to(run_directory.resolve()) and not path.name.startswith(
        names.PREFIX
    ):
        raise HostFailed(f"{path} is not one of contend's files", hint="the ledger names a stranger")
    there = path.is_symlink() or path.exists()
    path.unlink(missing_ok=True)
    return there


def _scope(name: str, row: Row, run_directory: Path) -> bool:
    return scope.remove(name)


def _mounts() -> list[Path]:
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return [Path(procfs.unescaped(line.split()[4])) for line in text.splitlines()]


def _fleet(name: str, row: Row, run_directory: Path) -> bool:
    """A fleet that was brought up for one run, with all that its hosts hold of it."""
    from contend.fleet import up

    fleet = up.find(name)
    if fleet is None:
        return False
    if failed := up.stop(fleet):
        host, why = next(iter(failed.items()))
        raise HostFailed(f"{host}: {why}", hint="once it is back: contend destroy again")
    return True


def _fleet_run(name: str, row: Row, run_directory: Path) -> bool:
    """What the hosts of a fleet that stays do for a run whose coordinator is gone."""
    from contend.fleet import up

    fleet = up.find(str(row.get("fleet", "")))
    return fleet is not None and up.end_run(fleet, name)


_REMOVERS: dict[str, Callable[[str, Row, Path], bool]] = {
    "cgroup": _cgroup,
    "cgroup-controller": _controller,
    "process": _process,
    "netns": _netns,
    "veth": _link,
    "link": _link,
    "container": _container,
    "image": lambda name, row, _: engines.remove_image(str(row.get("engine", "")), name),
    "bundle": _directory,
    image.KIND: lambda name, row, _: image.remove_half(Path(name), str(row.get("run", ""))),
    "directory": _directory,
    "file": _file,
    "scope": _scope,
    "fleet": _fleet,
    "fleet-run": _fleet_run,
    hotplug.KIND: hotplug.remove,
}
KINDS = tuple(_REMOVERS)
