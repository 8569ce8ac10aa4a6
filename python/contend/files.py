"""Read and write files that somebody else may have put there.

contend runs as root beside strangers, and reads run directories that they made. So a file inside a run directory is opened
without following a link (`O_NOFOLLOW`), only where it is a regular file (a FIFO or a device would be read for ever), and
only up to a size; and a new file is written under a random name that did not exist (`O_EXCL`), then renamed, so that no
link laid in its way is written through. A file that a user names may be a link, which is the user's choice; it is bounded
all the same (`read_named`), since whoever fills it may not be the user.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from contend.errors import BadInput
from contend.text.printable import short

MOST_BYTES = 1 << 28
"""The largest file that is read as a whole: far above what contend writes, far below a host's memory."""
PRIVATE, SHARED = 0o600, 0o644
"""Modes of new files: where they may hold secrets (traces, outputs, environments, scenarios), and of all others."""
HALF = ".part"
"""How the name of a file ends that is being written. It begins with a dot."""


class UnsafeFile(BadInput):
    """A file that is a link, a device, a FIFO, a directory or larger than it may be. It was not read."""


def open_inside(path: Path, *, most: int | None = None) -> BinaryIO:
    """Open a regular file of a run directory for reading; its directory may be anybody's.

    Raises FileNotFoundError where there is none, UnsafeFile where it is not a regular file or holds more than `most` bytes.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "link").symlink_to("/dev/zero")
    >>> open_inside(folder / "link")
    Traceback (most recent call last):
    contend.files.UnsafeFile: .../link is a symbolic link
    """
    try:
        # O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. It means nothing for regular files.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if path.is_symlink():  # ELOOP
            raise UnsafeFile(
                f"{path} is a symbolic link", hint="contend reads only what lies in a run"
            ) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFile(f"{path} is {_kind(status.st_mode)}, not a file", hint="who put it there?")
        if most is not None and status.st_size > most:
            raise UnsafeFile(
                f"{path} holds {status.st_size:,} bytes; at most {most:,} are read", hint="is it contend's?"
            )
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_inside(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """Read a regular file of a run directory. Raises as `open_inside` does; a file that grows meanwhile is cut."""
    with open_inside(path, most=most) as file:
        return file.read(most)


def read_named(path: Path, *, most: int, hint: str) -> bytes:
    """Read a regular file that the user named, of at most `most` bytes; links are followed.

    Raises BadInput, with `hint`, for what cannot be read, is no regular file (none that never ends, nobody is waited
    for) or is larger.

    >>> read_named(Path("/dev/zero"), most=9, hint="name a file")
    Traceback (most recent call last):
    contend.errors.BadInput: /dev/zero cannot be read: it is a device
    """
    name = short(path, 200)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb", closefd=True) as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise BadInput(f"{name} cannot be read: it is {_kind(mode)}", hint=hint)
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"{name} cannot be read: {why}", hint=hint) from error
    if len(data) > most:
        raise BadInput(f"{name} holds more than {most >> 10:,} KiB", hint=hint)
    return data


def text_named(path: Path, *, most: int, hint: str) -> str:
    """Read UTF-8 text, as `read_named`. Raises BadInput where it is none."""
    try:
        return read_named(path, most=most, hint=hint).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{short(path, 200)} is not UTF-8 text", hint=hint) from error


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = SHARED) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` when the block ends well, and is removed when it does not.

    Whoever reads `path` sees the old content or the new, never a half; a link there is replaced, not
    followed. Raises OSError.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "a.json") as file:
    ...     _ = file.write(b"{}")
    >>> [entry.name for entry in folder.iterdir()]
    ['a.json']
    """
    with (
        made_beside(path, mode=mode) as half,
        os.fdopen(os.open(half, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "wb") as file,
    ):
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def made_beside(path: Path, *, mode: int = SHARED) -> Iterator[Path]:
    """As `replacing`, for what writes a file by its name: a new, empty one that takes the place of `path`."""
    half = path.with_name(f".{path.name}.{os.urandom(6).hex()}{HALF}")
    os.close(os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode))
    try:
        yield half
        half.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            half.unlink()
        raise


def write(path: Path, data: bytes, *, mode: int = SHARED) -> None:
    """Replace a whole file, or leave the old one. See `replacing`."""
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock alone: others wait, and it goes with the process that has it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


NO_OUTPUT = "(no output)"


def last_line(path: Path) -> str:
    """The last line of a log that is not blank; NO_OUTPUT without one, and without the file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        lines = []
    return next((line.strip() for line in reversed(lines) if line.strip()), NO_OUTPUT)


def size_or_zero(path: Path) -> int:
    """Bytes of a regular file; 0 of anything else, and of what may not be looked at. Never raises.

    >>> size_or_zero(Path("/dev/zero")), size_or_zero(Path("\\0"))
    (0, 0)
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a directory"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def config_home() -> Path:
    """Where a user's own settings of contend are: `$XDG_CONFIG_HOME/contend`, else `~/.config/contend`.

    The XDG base directory specification wants relative paths ignored. A user without a home has none in /.config either.
    """
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return Path(config) / "contend"
    try:
        return Path.home() / ".config" / "contend"
    except RuntimeError:
        return Path("/.config/contend")


def user_home() -> Path:
    """The user's home directory. Raises BadInput where they have none: no HOME, and no entry among the system's users."""
    try:
        return Path.home()
    except RuntimeError:
        raise BadInput(
            "this user has no home directory",
            hint="set HOME, or XDG_STATE_HOME, XDG_CACHE_HOME and XDG_CONFIG_HOME, to directories of theirs",
        ) from None


def is_full(error: BaseException | None) -> bool:
    """True if a write failed for want of room, or of a user's share of it."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def has_room(path: Path) -> bool:
    """False where a file system holds no more bytes, or no more files, of this user's."""
    try:
        of = os.statvfs(path if path.exists() else path.parent)
    except OSError:
        return True
    return of.f_bavail > 0 and (not of.f_files or of.f_favail > 0)


def room_hint(path: Path, then: str) -> str:
    """The hint for a write that failed: make room for bytes, or for files where those are what is used up.

    >>> room_hint(Path("/"), "then try again")
    'free some space, then try again'
    """
    with contextlib.suppress(OSError):
        of = os.statvfs(path if path.exists() else path.parent)
        if of.f_files and not of.f_favail:
            return f"the file system can hold no more files (df -i): remove some, {then}"
    return f"free some space, {then}"
