"""contend as it is installed from wheels in a folder, into an environment of its own: nothing of the checkout is in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.command_line import Home, Said

ROOT = Path(__file__).parents[2]


def built(folder: Path, *packages: str) -> Path:
    """The wheels of these packages, as `scripts/dist.sh --native` builds them here."""
    subprocess.run(["scripts/dist.sh", "--native", "--out", folder, *packages], cwd=ROOT, check=True)
    return folder


class Installed(Home):
    """An environment with wheels in it, and a directory to work in that is empty but for the tests' tiny workloads."""

    def __init__(self, path: Path, wheels: Path, wanted: Sequence[str]) -> None:
        path.mkdir()
        super().__init__(path)
        self.bin = path.parent / f"{path.name}-env" / "bin"
        base = Path(sys.base_prefix) / "bin/python3"
        subprocess.run([base, "-m", "venv", self.bin.parent], check=True)
        subprocess.run(
            [self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            + ["--find-links", str(wheels), *wanted],
            check=True,
            cwd=path,
        )

    def environment(self, **changes: str | None) -> dict[str, str]:
        """As a login has it: the environment's programs first, nothing of this checkout's."""
        there = super().environment(**changes)
        foreign = ("PYTHON", "VIRTUAL_ENV", "CONTEND", "COVERAGE", "PYTEST")
        clean = {name: value for name, value in there.items() if not name.startswith(foreign)}
        return clean | {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    def run(self, *arguments: str, program: str = "contend", timeout: float = 120) -> Said:
        """A program of the environment, to its end."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    @property
    def megabytes(self) -> float:
        """What the environment takes on disk, without pip and without bytecode, which Python makes as it goes."""
        left_out = ("pip", "pip-", "setuptools", "__pycache__")
        size = 0
        for folder, folders, files in os.walk(self.bin.parent):
            folders[:] = [name for name in folders if not name.startswith(left_out)]
            size += sum((Path(folder) / file).lstat().st_size for file in files)
        return size / 1e6
