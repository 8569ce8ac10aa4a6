"""What the packages say of themselves agrees: one version, and the programs that contend starts are those it asks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import contend
from contend.platforms import programs

ROOT = Path(__file__).parents[3]
CRATES = ("probe", "fetch", "rpc")


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


VERSION: str = read("Cargo.toml")["workspace"]["package"]["version"]


def test_cargo_says_the_version_and_nobody_else() -> None:
    assert contend.__version__ == VERSION
    with pytest.raises(AttributeError, match="contend"):
        contend.version  # type: ignore[attr-defined]  # noqa: B018
    for name in ("pyproject.toml", *(f"crates/{crate}/pyproject.toml" for crate in CRATES)):
        project = read(name)["project"]
        assert project["dynamic"] == ["version"] and "version" not in project, name
    for crate in (*CRATES, "amqp", "core", "python"):
        assert read(f"crates/{crate}/Cargo.toml")["package"]["version"] == {"workspace": True}


def test_contend_asks_for_programs_of_its_own_series() -> None:
    """A program and contend speak a protocol that may change with the second number, never with the third."""
    project = read("pyproject.toml")["project"]
    asked = {"contend-probe": project["dependencies"]}
    asked |= {f"contend-{extra}": project["optional-dependencies"][extra] for extra in ("fetch", "rpc")}
    assert set(asked) == set(programs.NAMES)
    series = ".".join(VERSION.split(".")[:2])
    for name, requirements in asked.items():
        assert f"{name}~={series}.0" in requirements


def test_all_is_every_extra() -> None:
    extras = read("pyproject.toml")["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    named = re.fullmatch(r"contend\[([\w,]+)\]", everything)
    assert named and named[1].split(",") == sorted(extras)


def test_what_wheels_are_built_with_is_pinned() -> None:
    for each in read("pyproject.toml")["dependency-groups"]["dist"]:
        assert re.fullmatch(r"[\w-]+==[\w.]+", each), each


def test_a_source_archive_has_metadata(tmp_path: Path) -> None:
    """As pip asks for it first: in a tree where nothing was built or set up."""
    tree = tmp_path / "contend"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if name.partition("/")[0] not in ("tests", "docs", "testbed", "bench"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name, follow_symlinks=False)
    asked = f"import backend; print(backend.prepare_metadata_for_build_wheel({str(tmp_path / 'made')!r}))"
    (tmp_path / "made").mkdir()
    environment = os.environ | {
        "PYTHONPATH": str(tree / "scripts"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Version: {VERSION}\n" in next((tmp_path / "made").glob("*/METADATA")).read_text()


def test_each_wheel_carries_the_licence() -> None:
    for crate in CRATES:
        assert (ROOT / f"crates/{crate}/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
