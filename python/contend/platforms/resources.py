"""Everything contend makes on a host, by kind, and how each is removed again: after a run and after a crash.

Removal is idempotent, goes newest first, tries everything, and touches only what carries contend's name or
mark. A run whose ledger is locked is alive and is left alone unless that is forced.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contend.clock import SystemClock
from contend.errors import HostFailed
from contend.ledger import SCHEMA_VERSION, Ledger, append_line, is_locked, leftovers, read_rows
from contend.platforms import bundles, cgroups, engines, groups, hotplug, names, network, procfs, scope, state
from contend.platforms.guests import image

Row = Mapping[str, Any]
# How the kinds of things begin that programs of a run make: contend.clouds.openstack, contend.clouds.local.record.
ON_CLOUDS, OF_STORMS = "openstack-", "local-"


@dataclass(frozen=True, slots=True)
class Removed:
    """One thing that removal was tried on. `was_there` is False when it had gone already."""

    kind: str
    name: str
    was_there: bool
    why: str = ""  # why it is still there; it stays in the ledger then

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "name": self.name, "was_there": self.was_there, "why": self.why}


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
            if kind.startswith((ON_CLOUDS, OF_STORMS)):
                continue
            result = _remove(kind, name, row, ledger_path.parent)
            done.append(result)
            if not result.why:
                removed(kind, name)
        # After the processes that make them, and from the ledger as those have left it.
        left = leftovers(ledger_path)
        remote = [row for row in left if str(row["kind"]).startswith(ON_CLOUDS)]
        local = [row for row in left if str(row["kind"]).startswith(OF_STORMS)]
        for result in (*_remove_local(local), *_remove_remote(remote)):
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
        from contend.clouds.local.record import let_calls_end

        let_calls_end(rows)


def _remove_local(rows: list[dict[str, Any]]) -> list[Removed]:
    if not rows:
        return []
    from contend.clouds.local.record import remove

    return [Removed(*gone) for gone in remove(rows)]


def _remove(kind: str, name: str, row: Row, run_directory: Path) -> Removed:
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
    return [Path(line.split()[4].replace("\\040", " ")) for line in text.splitlines()]


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
    hotplug.KIND: hotplug.remove,
}
KINDS = tuple(_REMOVERS)


StrayKind = Literal["cgroup", "netns", "container", "process", "bundle", "guest-image"]


@dataclass(frozen=True, slots=True)
class Stray:
    """Something with contend's name that belongs to no known and no live run."""

    kind: StrayKind
    name: str
    run_id: str  # "" where only a hash of it is known
    detail: Mapping[str, str]


def find_strays(run_id: str | None = None) -> list[Stray]:
    """What earlier runs left whose ledger is gone: of `run_id`, or of every run without a ledger.

    Left out are runs that still have a pointer and a ledger (`remove_leftovers` is for them), and every run
    that a live contend holds open.
    """
    spared = live_runs() if run_id is not None else live_runs() | _with_ledger()

    def wanted(run: str) -> bool:
        return run not in spared and (run_id is None or run == run_id)

    found: list[Stray] = []
    for name, engine, run in engines.containers():
        if wanted(run):
            found.append(Stray("container", name, run, {"engine": engine}))
    found += [Stray("bundle", str(path), run, {}) for path, run in bundles.left() if wanted(run)]
    found += [Stray("guest-image", str(path), run, {}) for path, run in image.left() if wanted(run)]
    for path in cgroups.find(cgroups.read_layout()):
        run = re.sub(r"\.(limits|containers)$", "", path.name.removeprefix(f"{names.PREFIX}."))
        if wanted(run):
            found.append(Stray("cgroup", str(path), run, {}))
    spared_hashes = {names.short_hash(run) for run in spared}
    found += [
        Stray("netns", namespace, run_id or "", {})
        for namespace in network.namespaces(run_id)
        if namespace.split("-")[1] not in spared_hashes
    ]
    for pid in sorted(procfs.marked(run_id)):
        mark = procfs.marks(pid)
        if mark is not None and wanted(mark[0]):
            found.append(Stray("process", str(pid), mark[0], {"party": mark[1]}))
    return found


def remove_stray(stray: Stray) -> Removed:
    """Remove one stray. A pid is looked at again: it must still carry the mark."""
    if stray.kind == "process":
        return _remove(
            "process", stray.name, {"run": stray.run_id, "party": stray.detail["party"]}, Path("/")
        )
    return _remove(stray.kind, stray.name, {"run": stray.run_id, **stray.detail}, Path("/nonexistent"))


def _with_ledger() -> set[str]:
    return {pointer.run_id for pointer in state.pointers() if pointer.ledger.exists()}


def live_runs() -> set[str]:
    """Runs whose ledger some process holds locked, whoever's and wherever it lies (root sees everybody's)."""
    found: set[str] = set()
    for path in _open_ledgers():
        if path.exists() and is_locked(path):
            found |= {str(row["run"]) for row in read_rows(path) if row.get("run")}
    return found


def _open_ledgers() -> set[Path]:
    found: set[Path] = set()
    for pid in procfs.all_pids():
        try:
            descriptors = list((procfs.PROC / str(pid) / "fd").iterdir())
        except OSError:  # gone, or another user's: then nothing of that user's can be removed either
            continue
        for descriptor in descriptors:
            with suppress(OSError):  # closed meanwhile
                path = descriptor.readlink()
                if path.name == "ledger.ndjson":
                    found.add(path)
    return found


@dataclass(frozen=True, slots=True)
class Report:
    """What `contend destroy` did. `live` are the directories of runs that were left alone."""

    removed: tuple[Removed, ...] = ()
    failed: tuple[Removed, ...] = ()
    live: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "schema_version": SCHEMA_VERSION,
            "removed": [item.to_json() for item in self.removed],
            "failed": [item.to_json() for item in self.failed],
            "live": [str(path) for path in self.live],
        }


def destroy_run(directory: Path, *, force: bool = False) -> Report:
    """Remove what the run in `directory` left: by its ledger, then by its name, wherever else it is found.

    Raises HostFailed for a run that is alive, unless forced.
    """
    ledger = directory / "ledger.ndjson"
    done = remove_leftovers(ledger, force=force)
    runs = {str(row["run"]) for row in read_rows(ledger) if row.get("run")}
    for run_id in sorted(runs):
        done += [remove_stray(stray) for stray in find_strays(run_id)]
    report = _report(done)
    if not report.failed and not is_locked(ledger):
        for run_id in runs:
            state.unregister(run_id)
    return report


def destroy_all(*, force: bool = False) -> Report:
    """Remove what any run of this user left, and what carries contend's name and belongs to no run."""
    done: list[Removed] = []
    live: list[Path] = []
    for pointer in state.pointers():
        if is_locked(pointer.ledger) and not force:
            live.append(pointer.directory)
        elif pointer.ledger.exists():
            report = destroy_run(pointer.directory, force=force)
            done += [*report.removed, *report.failed]
    done += [remove_stray(stray) for stray in find_strays()]
    report = _report(done, tuple(live))
    for pointer in state.pointers():  # the directory was deleted; what it left is a stray, and gone now
        if not report.failed and not pointer.ledger.exists():
            state.unregister(pointer.run_id)
    return report


def _report(done: list[Removed], live: tuple[Path, ...] = ()) -> Report:
    return Report(
        removed=tuple(item for item in done if item.was_there and not item.why),
        failed=tuple(item for item in done if item.why),
        live=live,
    )
