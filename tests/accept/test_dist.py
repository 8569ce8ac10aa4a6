"""What `make dist` builds: the same bytes twice, from another directory; installed by pip, uv and pipx from a folder.

Builds twice from nothing: about twenty minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.installed import ROOT
from support.prerequisites import need

PACKAGES = ("contend", "contend_probe", "contend_fetch", "contend_rpc")

pytestmark = pytest.mark.accept


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two clones of this commit, each with what it built."""
    need(shutil.which("mmdebstrap"), "mmdebstrap: scripts/packages.sh dist")
    made = []
    for name in ("one", "another-place"):
        clone = tmp_path_factory.mktemp(name) / "contend"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        subprocess.run(["make", "--quiet", "dist"], cwd=clone, check=True)
        made.append(clone / "dist")
    return made[0], made[1]


def test_the_same_commit_gives_the_same_bytes(dist: tuple[Path, Path]) -> None:
    one, another = ((of / "SHA256SUMS").read_text().splitlines() for of in dist)
    # The image is a snapshot of Debian's archive of the moment.
    same = [line for line in one if "oci" not in line]
    assert same == [line for line in another if "oci" not in line]
    assert len(same) >= 2 * len(PACKAGES)


def test_wheels_are_for_every_linux_of_these_years(dist: tuple[Path, Path]) -> None:
    for package in PACKAGES:
        (wheel,) = dist[0].glob(f"{package}-[0-9]*x86_64.whl")
        assert "manylinux_2_28_x86_64" in wheel.name
        listing = subprocess.run(
            [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
        )
        assert "THIRD-PARTY.txt" in listing.stdout and "sboms/" in listing.stdout


def test_source_archives_build(dist: tuple[Path, Path], tmp_path: Path) -> None:
    for package in PACKAGES:
        (archive,) = dist[0].glob(f"{package}-[0-9]*.tar.gz")
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, archive],
            check=True,
        )
    assert len(list(tmp_path.glob("*.whl"))) == len(PACKAGES)


@pytest.mark.parametrize("installer", ["pip", "uv", "pipx"])
def test_an_installer_from_a_folder(installer: str, dist: tuple[Path, Path], tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    if installer != "pip":
        subprocess.run([tools / "bin/pip", "install", "--quiet", installer], check=True)
    env = os.environ | {"UV_TOOL_DIR": str(tmp_path / "uv"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    env |= {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIP_FIND_LINKS": str(dist[0]),
    }
    wanted = "contend[fetch,rpc]"
    commands = {
        "pip": [tools / "bin/pip", "install", "--quiet", wanted],
        "uv": [tools / "bin/uv", "tool", "install", "--quiet", "--find-links", dist[0], wanted],
        "pipx": [tools / "bin/pipx", "install", "--quiet", wanted],
    }
    subprocess.run(commands[installer], check=True, env=env)
    program = tools / "bin/contend" if installer == "pip" else tmp_path / "bin/contend"
    work = tmp_path / "work"
    work.mkdir()
    for words in (
        ["doctor"],
        ["ab", "--blocks", "3", "--target", "none", "--", "true", "--vs", "sh", "-c", ":"],
    ):
        done = subprocess.run(
            [program, *words], cwd=work, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
