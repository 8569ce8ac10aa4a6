"""Reach of a process: can it see and write what contend puts in its way (mount namespaces, users, rights)?"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import contend
from contend.errors import BadInput

# Of x86-64: what a main thread waits in.
_SYSTEM_CALLS = {
    0: "read",
    1: "write",
    7: "poll",
    23: "select",
    35: "nanosleep",
    42: "connect",
    43: "accept",
    45: "recvfrom",
    47: "recvmsg",
    61: "wait4",
    73: "flock",
    202: "futex",
    230: "clock_nanosleep",
    232: "epoll_wait",
    270: "pselect6",
    271: "ppoll",
    281: "epoll_pwait",
    288: "accept4",
}


def check_package(pid: int) -> None:
    """Check that the process can import this contend. Raises BadInput where it sees another at its path, or none."""
    package = Path(contend.__file__).resolve().parent
    if not _sees(pid, package):
        raise BadInput(
            f"process {pid} sees another file system, as in a container: {package} is not in it",
            hint=f"mount it there (docker run -v {package}:{package}:ro), or run contend inside",
        )
    _may_reach(pid, package, "reads contend from there", "install contend where it may read, like /opt")


def give(pid: int, directory: Path, files: Iterable[Path]) -> None:
    """Let the user of a process write the directory and own the files. Raises BadInput where that cannot be."""
    if not _sees(pid, directory):
        raise BadInput(
            f"process {pid} sees another file system, as in a container: {directory} is not in it",
            hint="name a directory that both see: -o DIR",
        )
    uid, gid = _ids(pid)
    if uid != os.geteuid():
        try:
            for path in (directory, *files):
                os.chown(path, uid, gid, follow_symlinks=False)
        except PermissionError as error:
            raise BadInput(
                f"{directory} cannot be given to user {uid}, as whom process {pid} runs",
                hint="run contend as root",
            ) from error
    _may_reach(pid, directory, "would record there", "name another: -o /tmp/DIR")


def has_native(tag: str) -> bool:
    """True if the native module was also built for the CPython of that tag, such as `314t`."""
    package = Path(contend.__file__).resolve().parent
    return any(package.glob(f"_native.cpython-{tag}-*.so"))


def system_call(pid: int) -> int | None:
    """Number of the system call that the process's main thread waits in; None where it waits in none."""
    try:
        word = Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()[0]
    except (OSError, IndexError):
        return None
    return int(word) if word.isdigit() else None


def where(pid: int) -> str:
    """Describe what keeps the process's main thread."""
    number = system_call(pid)
    if number is None:
        return "its main thread is in native code"
    return f"its main thread waits in the system call {_SYSTEM_CALLS.get(number, f'number {number}')}"


def _ids(pid: int) -> tuple[int, int]:
    """User and group that its files get."""
    ids = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key in ("Uid", "Gid"):
                ids[key] = int(value.split()[3])  # real, effective, saved, of files
        return ids["Uid"], ids["Gid"]
    except (OSError, KeyError) as error:
        raise BadInput(f"process {pid} has ended", hint="pgrep -a python lists those that run") from error


def _sees(pid: int, path: Path) -> bool:
    try:
        theirs, own = Path(f"/proc/{pid}/root{path}").stat(), path.stat()
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) == (own.st_dev, own.st_ino)


def _may_reach(pid: int, path: Path, why: str, hint: str) -> None:
    uid, gid = _ids(pid)
    if uid == 0:
        return
    for directory in (path, *path.parents):
        status = directory.stat()
        needed = (
            stat.S_IXUSR if status.st_uid == uid else stat.S_IXGRP if status.st_gid == gid else stat.S_IXOTH
        )
        # Other groups of the process, and access lists, may let it in where these bits do not.
        if not status.st_mode & (needed | stat.S_IXGRP):
            raise BadInput(f"user {uid} may not enter {directory}; process {pid} {why}", hint=hint)
