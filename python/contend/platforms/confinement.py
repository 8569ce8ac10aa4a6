"""Names and folders that a thing of each kind may have: a row of a ledger with any other removes nothing.

Raises HostFailed for what is not contend's, of that run. Directories and files are removed through descriptors of the
directories they lie in, which are walked to without following a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contend import names
from contend.errors import HostFailed
from contend.platforms import cgroups, procfs, resctrl

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CONTROLLER = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class OfRun:
    """The run that owns a thing. `run_id`: "" where only a hash of it is known. `directory`: of the run, None where it
    has none."""

    run_id: str
    directory: Path | None = None
    kept: Path | None = None  # where its ledger is

    def named(self, name: str) -> bool:
        """Does the name of a thing carry that of the run, or its hash?

        >>> OfRun("r-1").named("contend-r-1-pool"), OfRun("r-1").named("contend-r-10-pool")
        (True, False)
        """
        if not self.run_id:
            return name.startswith(f"{names.PREFIX}-")
        starts = (f"{names.PREFIX}-{self.run_id}", f"{names.PREFIX}-{names.short_hash(self.run_id)}")
        return any(re.match(rf"{re.escape(start)}(?:[.-]|$)", name) for start in starts)

    def hashed(self, name: str, prefix: str) -> bool:
        """Does a name that the kernel keeps short begin with the run's hash?"""
        return not self.run_id or name.startswith(prefix + names.short_hash(self.run_id))


def stranger(what: str, kind: str) -> HostFailed:
    return HostFailed(
        f"{what} is not one of contend's {kind} of this run", hint="the ledger names a stranger"
    )


def group(name: str, of: OfRun) -> Path:
    """The directory of one of the run's groups, in a hierarchy that is mounted."""
    path = in_hierarchy(name)
    wanted = names.run_group(of.run_id)
    own = (wanted, f"{wanted}.limits", f"{wanted}.containers") if of.run_id else ()
    if path is None or not any(
        part in own if own else part.startswith(f"{names.PREFIX}.") for part in path.parts
    ):
        raise stranger(name, "cgroups")
    return path


def monitor(name: str, of: OfRun) -> Path:
    """The directory of one of the run's groups for monitoring."""
    path = Path(name)
    start = f"{names.run_group(of.run_id)}." if of.run_id else f"{names.PREFIX}."
    if path.parent != resctrl.ROOT / "mon_groups" or not path.name.startswith(start):
        raise stranger(name, "groups for monitoring")
    return path


def controller(name: str) -> tuple[Path, str]:
    """(group, controller) of `GROUP:CONTROLLER`."""
    parent, _, word = name.rpartition(":")
    path = in_hierarchy(parent)
    if path is None or not _CONTROLLER.fullmatch(word):
        raise stranger(name, "controllers")
    return path, word


def in_hierarchy(name: str) -> Path | None:
    path = Path(name)
    if not path.is_absolute() or ".." in path.parts:
        return None
    return (
        path if any(path.is_relative_to(each.root) for each in cgroups.read_layout().hierarchies()) else None
    )


def remove_directory(name: str, of: OfRun, parents: tuple[Path, ...] = ()) -> bool:
    """Remove a directory inside the run's own, or one that carries the run's name: anywhere, or right in `parents`. Nothing
    is removed that something is mounted in. False where there is none.

    Raises HostFailed, OSError.
    """
    path = _real(name)
    if not _inside(path, of) and not (
        _plain(path) and of.named(path.name) and (not parents or path.parent in parents)
    ):
        raise stranger(name, "directories")
    with _parent_of(path) as parent:
        if parent is None or (status := _status(path.name, parent)) is None:
            return False
        if not stat.S_ISDIR(status.st_mode):
            return False
        _check_owner(status, path, of)
        real = Path(os.readlink(f"/proc/self/fd/{parent}")) / path.name  # noqa: PTH115 (bytes that are no UTF-8 stay)
        if mounted := [mount for mount in mounts() if mount.is_relative_to(real)]:
            raise HostFailed(f"{mounted[0]} is still mounted", hint=f"umount {mounted[0]}")
        _remove_tree(path.name, parent)
    return True


def remove_file(name: str, of: OfRun) -> bool:
    """Remove a file inside the run's directory, or one that carries the run's name. False where there is none."""
    path = _real(name)
    if not _inside(path, of) and not (_plain(path) and of.named(path.name)):
        raise stranger(name, "files")
    with _parent_of(path) as parent:
        if parent is None or (status := _status(path.name, parent)) is None:
            return False
        _check_owner(status, path, of)
        os.unlink(path.name, dir_fd=parent)
    return True


def mounts() -> list[Path]:
    """Every mount point; bytes that are no UTF-8 as Python keeps them in file names."""
    text = procfs.read_text(Path("/proc/self/mountinfo"))
    return [Path(procfs.unescaped(line.split(" ")[4])) for line in text.split("\n") if line]


def _real(name: str) -> Path:
    """The path with the links resolved that lead to its directory; it is then walked to without any."""
    path = Path(name)
    if ".." in path.parts or not path.is_absolute():
        return path
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError) as error:
        raise stranger(name, "files") from error


def _plain(path: Path) -> bool:
    return path.is_absolute() and ".." not in path.parts and path.name not in ("", ".")


def _inside(path: Path, of: OfRun) -> bool:
    return (
        of.directory is not None
        and _plain(path)
        and path.is_relative_to(of.directory)
        and path != of.directory
    )


def _check_owner(status: os.stat_result, path: Path, of: OfRun) -> None:
    """Check an owner: inside the run it may be another (a container's user); elsewhere it is this user."""
    if status.st_uid != os.geteuid() and not _inside(path, of):
        raise HostFailed(f"{path} belongs to another user", hint="the ledger names a stranger")


@contextlib.contextmanager
def _parent_of(path: Path) -> Iterator[int | None]:
    """A descriptor of the directory that it lies in, reached without a link; None where that is not there."""
    fd = os.open("/", _DIRECTORY)
    try:
        for part in path.parent.parts[1:]:
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
    except FileNotFoundError:
        os.close(fd)
        yield None
        return
    except OSError as error:
        os.close(fd)
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise HostFailed(f"a link leads to {path}", hint="remove it by hand") from error
        raise
    try:
        yield fd
    finally:
        os.close(fd)


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _remove_tree(name: str, parent: int) -> None:
    """rmtree beside a run that was forced to end and may be making and removing files below at this moment."""
    for attempt in range(20):
        try:
            shutil.rmtree(name, dir_fd=parent)
        except FileNotFoundError:
            pass  # somebody else was quicker: look again
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == 19:
                raise
        if _status(name, parent) is None:
            return
        time.sleep(0.02)
