"""Programs that are built once and kept: what a build that was killed has left, and two builds at once."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from contend.errors import CannotHonour
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


def test_a_build_that_takes_too_long_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    # A compiler in a session of its own, as a build's server is, that does not hear of SIGTERM.
    words = ["sh", "-c", f"setsid sh -c 'trap : TERM; echo $$ >{note}; while :; do sleep 1; done' & wait"]
    with pytest.raises(CannotHonour, match=r"make does not end within 0\.5 s"):
        built.run("make", words, tmp_path, os.environ, 0.5, "hint")
    pid = int(note.read_text())
    until = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_build_that_fails_is_told_by_its_last_words(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "WORD": "no such header"}
    with pytest.raises(CannotHonour, match="make failed and said: no such header"):
        built.run("make", ["sh", "-c", 'echo first; echo "$WORD" >&2; exit 3'], tmp_path, environ, 9, "hint")
    with pytest.raises(CannotHonour, match=r"make failed and said: \(no output\)"):
        built.run("make", ["false"], tmp_path, environ, 9, "hint")
    with pytest.raises(CannotHonour, match="make cannot be started"):
        built.run("make", ["/no/such/make"], tmp_path, environ, 9, "hint")
    built.run("make", ["sh", "-c", 'test "${HOME-unset}" = unset'], tmp_path, environ, 9, "hint")
