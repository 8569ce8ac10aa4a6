"""Programs that are built once and kept: what a build that was killed has left, and two builds at once."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from contend.workloads.downloads import built


def test_what_a_killed_build_left_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".tool-dead/target").mkdir(parents=True)
    (tmp_path / ".tool-0123456789abcdef.77").write_text("half")
    (tmp_path / ".other-dead").mkdir()
    program = built.kept(tmp_path, "tool", b"source", _write)
    assert program.read_text() == "program"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other-dead", program.name]


def test_two_at_once_build_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        programs = pool.map(_build, [tmp_path] * 3)
    assert len(set(programs)) == 1
    assert (tmp_path / "built").read_text() == "x"


def _build(cache: Path) -> Path:
    return built.kept(cache, "tool", b"source", lambda path: _slowly(cache, path))


def _slowly(cache: Path, path: Path) -> None:
    with (cache / "built").open("a") as file:
        file.write("x")
    time.sleep(0.2)
    _write(path)


def _write(path: Path) -> None:
    path.write_text("program", encoding="utf-8")
