"""Who could have changed a file: only this user (and root), or somebody else too.

A path is walked from `/`, one directory at a time and never through a link, and each is looked at through the descriptor
that the next step uses. So what was checked is what is read, however names are changed meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

OVERFLOW_UID = 65534
"""How owners look that a user namespace does not map: Documentation/admin-guide/sysctl/kernel.rst, overflowuid."""
_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Changeable(Exception):
    """Somebody else could have changed it; the message says who and where, in plain words."""


@contextlib.contextmanager
def own_directory(path: Path) -> Iterator[int]:
    """A descriptor (O_PATH) of a directory that this user owns and that nobody else can write, at a path that nobody else
    could lead elsewhere. `path`: absolute and resolved. Raises Changeable; OSError where it cannot be opened.

    >>> import tempfile
    >>> with own_directory(Path(tempfile.mkdtemp()).resolve()) as fd:
    ...     fd > 0
    True
    """
    fd, here = os.open("/", _FLAGS), Path("/")
    try:
        _check_above(fd, here)
        for part in path.parts[1:]:
            inner = os.open(part, _FLAGS, dir_fd=fd)
            os.close(fd)
            fd, here = inner, here / part
            if here != path:
                _check_above(fd, here)
        _check_own(fd, path)
        yield fd
    finally:
        os.close(fd)


def open_own(name: str, directory: int, where: Path) -> int:
    """Open a file for reading in a directory that `own_directory` gave: regular, this user's, with one name, and
    writable by nobody else. `where`: for messages. Raises Changeable, OSError."""
    # O_NONBLOCK: a FIFO would be waited for.
    fd = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=directory
    )
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Changeable(f"{where / name} is not a regular file")
        if status.st_nlink != 1:
            raise Changeable(f"{where / name} has {status.st_nlink} names (hard links)")
        _check_own(fd, where / name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def why_changeable(path: Path) -> str:
    """Why somebody else could change what is in this directory; "" where nobody could. A missing one counts as such.

    >>> why_changeable(Path("/tmp"))
    '/tmp can be written by others'
    """
    try:
        with own_directory(path.resolve()):
            return ""
    except Changeable as found:
        return str(found)
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        return f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}"


def why_file_changeable(path: Path) -> str:
    """Why somebody other than root and this user could change this file, which is looked at wherever links lead to; "" where
    nobody could.

    >>> why_file_changeable(Path("/etc/hostname"))
    ''
    """
    try:
        path = path.resolve(strict=True)
        for above in path.parents:
            fd = os.open(above, _FLAGS)
            try:
                _check_above(fd, above)
            finally:
                os.close(fd)
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if status.st_uid not in (0, os.geteuid()):
                return f"{path} belongs to {owner(status.st_uid)}"
            _check_mode(fd, path, status)
        finally:
            os.close(fd)
    except Changeable as found:
        return str(found)
    except (OSError, RuntimeError) as error:
        return f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}"
    return ""


def why_not_own(directory: Path, files: Iterable[str]) -> str:
    """Why a directory, or one of these files in it, may not be this user's own alone; "" where all are. A file that is not
    there is nobody's. Where the directory lies does not matter: whoever exchanges it has one of another owner."""
    try:
        fd = os.open(directory.resolve(strict=True), _FLAGS)
        try:
            _check_own(fd, directory)
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    os.close(open_own(name, fd, directory))
        finally:
            os.close(fd)
    except Changeable as found:
        return str(found)
    except (OSError, RuntimeError) as error:
        return f"{directory} cannot be opened: {getattr(error, 'strerror', None) or error}"
    return ""


def owner(uid: int) -> str:
    """
    >>> owner(0)
    'root (uid 0)'
    """
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _check_above(fd: int, path: Path) -> None:
    """A directory on the way: root's or this user's, where others cannot exchange what is in it (sticky)."""
    status = os.fstat(fd)
    if status.st_uid not in (0, os.geteuid()) and not (status.st_uid == OVERFLOW_UID and _root_unmapped()):
        raise Changeable(f"{path} belongs to {owner(status.st_uid)}")
    if not status.st_mode & stat.S_ISVTX:
        _check_mode(fd, path, status)


def _check_own(fd: int, path: Path) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        raise Changeable(f"{path} belongs to {owner(status.st_uid)}")
    _check_mode(fd, path, status)


def _check_mode(fd: int, path: Path, status: os.stat_result) -> None:
    if status.st_mode & stat.S_IWOTH:
        raise Changeable(f"{path} can be written by others")
    # With an access list these bits are its mask: they stand wherever anybody named there may write.
    if status.st_mode & stat.S_IWGRP and (_has_list(fd) or not _private(status.st_gid)):
        raise Changeable(f"{path} can be written by its group")


def _has_list(fd: int) -> bool:
    try:
        return bool(os.getxattr(f"/proc/self/fd/{fd}", "system.posix_acl_access"))
    except OSError:  # ENODATA; ENOTSUP: a file system without them
        return False


@functools.cache
def _private(gid: int) -> bool:
    """Is it the group of this user alone? Debian and Red Hat make one for each, and a umask of 002 for them."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    others = any(one.pw_gid == gid and one.pw_uid != user.pw_uid for one in pwd.getpwall())
    return gid == user.pw_gid and set(group.gr_mem) <= {user.pw_name} and not others


@functools.cache
def _root_unmapped() -> bool:
    """In a user namespace without the host's root, whose directories then look as if they were of nobody."""
    return Path("/").stat().st_uid == OVERFLOW_UID
