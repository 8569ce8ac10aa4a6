"""Paths of contend's own programs, built from Rust: beside this Python, or where a variable says."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from contend.errors import HostFailed

_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
NAMES = ("contend-probe", "contend-fetch", "contend-rpc")
_EXTRAS = {"contend-fetch": "fetch", "contend-rpc": "rpc"}


def find(name: str) -> Path | None:
    """The program named by its variable (CONTEND_PROBE of contend-probe), that of this Python, the one on PATH, or
    that of its wheel.

    None where there is none; what a variable names is not looked at.

    >>> path = find("contend-probe")
    >>> path is None or path.name == "contend-probe"
    True
    """
    named = os.environ.get(name.upper().replace("-", "_"))
    if named:
        return Path(named)
    beside = Path(sys.executable).with_name(name)
    if os.access(beside, os.X_OK):
        return beside
    import shutil  # which brings four compressors along: a start of `contend fetch` is measured

    path = shutil.which(name)
    return _of_wheel(name) if path is None else Path(path)


def _of_wheel(name: str) -> Path | None:
    """The program where its wheel was installed to: `pip install --user` and `--target` put it where no PATH leads."""
    import importlib.metadata  # as above

    try:
        files = importlib.metadata.files(name) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name == name)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def how_to_install(names: Sequence[str]) -> str:
    """The hint for programs of contend's own that are not there.

    >>> how_to_install(["contend-fetch", "contend-probe"])
    "pip install 'contend[fetch]' contend-probe; in a checkout: make setup"
    """
    wanted = (f"'contend[{_EXTRAS[name]}]'" if name in _EXTRAS else name for name in names)
    return f"pip install {' '.join(wanted)}; in a checkout: make setup"


def installed(name: str) -> Path:
    """Path of one of contend's own programs. Raises HostFailed where there is none."""
    path = find(name)
    if path is None:
        raise HostFailed(f"{name} is not installed", hint=how_to_install([name]))
    return path


def is_installed(name: str) -> bool:
    """True if there is one, and it can be started.

    >>> is_installed("contend-nothing")
    False
    """
    path = find(name)
    return path is not None and os.access(path, os.X_OK)


def search_path() -> str:
    """PATH, and the system directories that a normal user's leaves out: nginx is in /usr/sbin."""
    given = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*given, *(d for d in _SYSTEM if d not in given)])


def find_command(name: str) -> Path | None:
    """Find a program of the host, also in the system's directories; None where there is none."""
    import shutil  # as above

    path = shutil.which(name, path=search_path())
    return Path(path) if path else None
