"""The list that is kept from one start to the next: believed where nothing has changed, and where it is ours."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from contend.serve import kept, reading
from contend.serve.index import Filter, Index
from support.made_many import copies
from support.prerequisites import need


@pytest.fixture
def place(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five runs of an hour ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runs = copies(base, tmp_path / "runs", [1.0] * 5)
    for run in runs:
        for file in run.iterdir():
            age(file)
    return tmp_path / "runs"


def age(file: Path) -> None:
    about = file.stat()
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns - 3600 * 10**9))


def listed(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """As the next `contend serve` lists them, and which it read."""
    read: list[str] = []
    real = reading.read

    def noting(where: Path, name: str) -> reading.Entry:
        read.append(name)
        return real(where, name)

    with monkeypatch.context() as patched:
        patched.setattr(reading, "read", noting)
        index = Index(place, keep=True)
        names = [entry.name for entry in index.page(Filter(order="title")).entries]
        index.close()
    return sorted(names), read


def the_file(place: Path) -> Path:
    (file,) = (place.parent / "cache/contend/lists").iterdir()
    return file


ALL = [f"run-000{n}" for n in range(5)]


def test_the_next_start_reads_nothing_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(place.rglob("*"))
    assert listed(place, monkeypatch) == (ALL, ALL)
    assert listed(place, monkeypatch) == (ALL, [])
    assert sorted(place.rglob("*")) == before, "nothing is written beside the runs"
    assert the_file(place).stat().st_mode & 0o777 == 0o600
    assert the_file(place).parent.stat().st_mode & 0o777 == 0o700


def test_entries_are_what_was_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Index(place, keep=True)
    told = first.page(Filter()).entries
    first.close()
    second = Index(place, keep=True)
    assert second.page(Filter()).entries == told
    assert second.page(Filter(text="ffmpeg takes 2.0")).matches == 5


def test_what_changed_is_read_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(place, monkeypatch)
    plan = place / "run-0002/plan.json"
    plan.write_text(plan.read_text() + " ")
    shutil.rmtree(place / "run-0003")
    shutil.copytree(place / "run-0000", place / "late")
    assert listed(place, monkeypatch) == (["late", *ALL[:3], "run-0004"], ["late", "run-0002"])


def test_a_file_written_just_now_may_be_written_again_at_the_same_moment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "run-0001/plan.json").touch()
    listed(place, monkeypatch)
    assert listed(place, monkeypatch)[1] == ["run-0001"]


def spoilt(change: Callable[[dict[str, object]], object]) -> Callable[[Path], object]:
    """A file whose content was changed by somebody who knows its digest."""

    def spoil(path: Path) -> None:
        from contend.report import cache

        content = cache.read(path)
        assert content is not None
        told = json.loads(content)
        change(told)
        cache.keep(path, json.dumps(told).encode())

    return spoil


def other_names(told: dict[str, object]) -> None:
    runs = told["runs"]
    assert isinstance(runs, dict)
    for run in runs.values():
        run["entry"]["name"] = "../../etc"


SPOIL: dict[str, Callable[[Path], object]] = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "no JSON": spoilt(lambda told: told.clear()),
    "another's type": spoilt(lambda told: told.update(runs=7)),
    "another version": spoilt(lambda told: told.update(made_by="0.0.1 1 name")),
    "another place": spoilt(lambda told: told.update(folder=[1, 1])),
    "other names": spoilt(other_names),
    "anybody's": lambda path: path.chmod(0o666),
    "in anybody's directory": lambda path: path.parent.chmod(0o777),
    "another user's": lambda path: os.chown(path, 65534, 65534),
    "in another user's directory": lambda path: os.chown(path.parent, 65534, 65534),
    "a link": lambda path: (path.rename(path.with_name("x")), path.symlink_to(path.with_name("x"))),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    "a FIFO": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("how", SPOIL)
def test_what_cannot_be_trusted_is_read_anew(place: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    need("another user" not in how or os.geteuid() == 0, "files are given away by root alone")
    listed(place, monkeypatch)
    SPOIL[how](the_file(place))
    assert listed(place, monkeypatch) == (ALL, ALL)


def test_without_a_place_nothing_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert listed(place, monkeypatch) == (ALL, ALL)
    assert listed(place, monkeypatch) == (ALL, ALL)


def test_another_place_has_a_list_of_its_own(
    place: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(place, monkeypatch)
    copies(base, place.parent / "others", [1.0], name="other")
    assert kept.load(place.parent / "others") == {}
    assert listed(place.parent / "others", monkeypatch)[0] == ["other-0000"]
    assert listed(place, monkeypatch) == (ALL, [])
