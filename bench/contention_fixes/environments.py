"""An environment for each version of a fix: made by pip, or uv where it is there, once, and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from contend.errors import CannotHonour


def cache() -> Path:
    """Where environments and rows are kept between runs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "contend" / "contention-fixes"


def environment(requirements: Sequence[str], build: Sequence[str] = ()) -> Path:
    """The Python of an environment with just these. Raises CannotHonour where they cannot be installed."""
    key = hashlib.sha256(repr((sys.version, requirements, build)).encode()).hexdigest()[:16]
    project = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in requirements[0])
    place = cache() / "environments" / f"{project}-{key}"
    python, done = place / "bin/python", place / "complete"
    if done.exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    constraints = place / "build-constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in build), encoding="utf-8")
    installed = subprocess.run(
        [*_installer(python), *requirements],
        env=os.environ | ({"PIP_CONSTRAINT": str(constraints), "UV_BUILD_CONSTRAINT": str(constraints)} if build else {}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode:
        shutil.rmtree(place)
        raise CannotHonour(
            f"{' '.join(requirements)} cannot be installed",
            hint=installed.stderr.strip()[-500:] or "(no output)",
        )
    done.touch()
    return python


def _installer(python: Path) -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    return [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
