"""The Pythons that are on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python"
_NEWEST = 20
_NOT_FOUND = 127  # as shells have it
_ABOUT = (
    "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
)


@cache
def interpreters() -> dict[str, str]:
    """Version, such as 3.14 or 3.14t, → path: python3.X and python3.Xt on PATH, and what CONTEND_TEST_PYTHONS names
    (paths, separated as in PATH). Of free-threaded ones those that a native module was built for.
    """
    named = [path for path in os.environ.get("CONTEND_TEST_PYTHONS", "").split(os.pathsep) if path]
    on_path = (shutil.which(f"python3.{minor}{kind}") for minor in range(11, _NEWEST) for kind in ("", "t"))
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    for path in [*named, *on_path]:
        told = path and subprocess.run([path, "-I", "-c", _ABOUT], capture_output=True, text=True)
        if told and told.returncode == _NOT_FOUND and path not in named:  # a shim whose Python is not there
            continue
        if told and told.returncode != 0:  # one that is broken is there
            raise RuntimeError(f"{path} does not start: {told.stderr.strip()[-500:]}")
        if told:
            major, minor, free_threaded = map(int, told.stdout.split())
            if (major, minor) >= (3, 11) and (not free_threaded or has_native(minor)):
                found.setdefault(f"{major}.{minor}{'t' * free_threaded}", str(path))
    return found


def has_native(minor: int) -> bool:
    """A module for the free-threaded 3.`minor`, by `scripts/native.sh`."""
    return any((PACKAGE / "contend").glob(f"_native.cpython-3{minor}t-*.so"))


def asked_by_themselves() -> dict[str, str]:
    """Those that offer remote execution (PEP 768): 3.14 and newer."""
    return {
        version: path
        for version, path in interpreters().items()
        if int(version.removesuffix("t").partition(".")[2]) >= 14
    }
