"""Clients that are built on demand, Go's and Rust's reqwest: built once, and what they verify, trust and refuse."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contend.engine.seating import downloads
from contend.errors import CannotHonour
from contend.workloads.downloads import built
from contend.workloads.downloads.clients import CLIENTS, Task, command_of, put_program
from support.glance_answers import CONTENT, ID, SHA512, TOKEN, answer, corrupted
from support.prerequisites import need
from support.wire_servers import Authority, Server, serving

BUILDERS: dict[str, Callable[[Path], Path]] = {"go": built.build_go, "reqwest": built.build_reqwest}


@pytest.fixture(scope="module", params=BUILDERS)
def client(request: pytest.FixtureRequest) -> str:
    """Built where a run would build it: once on a host, which of reqwest takes minutes."""
    name: str = request.param
    need(not CLIENTS[name].missing(), f"client {name}: {', '.join(CLIENTS[name].missing())}")
    BUILDERS[name](downloads())
    return name


@pytest.fixture
def glance() -> Iterator[Server]:
    with serving(answer) as server:
        yield server


@pytest.fixture
def task(client: str, tmp_path: Path) -> Task:
    """Of a server that is still to be named."""
    put_program(client, tmp_path, downloads())
    return Task("", output=str(tmp_path / "x"), image=ID, token=TOKEN, programs=str(tmp_path))


def download(client: str, task: Task) -> subprocess.CompletedProcess[str]:
    command = command_of(client, task)
    return subprocess.run(command.argv, input=command.stdin, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("sha512", ["", SHA512])
def test_it_downloads_with_a_token(client: str, task: Task, glance: Server, sha512: str) -> None:
    task = replace(task, base=glance.url, sha512=sha512)
    done = download(client, task)
    assert done.returncode == 0, done.stderr
    assert Path(task.output).read_bytes() == CONTENT
    refused = download(client, replace(task, token="another"))
    assert refused.returncode == 1
    assert "401" in refused.stderr


def test_only_the_checksum_tells_what_was_corrupted(client: str, task: Task) -> None:
    with serving(lambda request: answer(request, corrupted())) as glance:
        task = replace(task, base=glance.url)
        assert download(client, task).returncode == 0, "it was not told what to verify"
        done = download(client, replace(task, sha512=SHA512))
    assert done.returncode == 1
    assert "the checksum differs" in done.stderr


def test_it_trusts_whom_it_is_told_to(client: str, task: Task, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "others").mkdir()
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    with serving(answer, tls=ours.server("127.0.0.1")) as glance:
        task = replace(task, base=glance.url, sha512=SHA512, authority=str(ours.file))
        done = download(client, task)
        assert done.returncode == 0, done.stderr
        assert Path(task.output).read_bytes() == CONTENT
        for authority in (str(others.file), ""):
            done = download(client, replace(task, authority=authority))
            assert done.returncode == 1
            assert "certificate" in done.stderr.lower(), done.stderr


def test_what_is_cut_short_is_no_download(client: str, task: Task) -> None:
    """Not even where nothing is verified."""

    def cut(request: bytes) -> bytes:
        return answer(request)[:-1000]

    with serving(cut, closes=True) as glance:
        done = download(client, replace(task, base=glance.url))
    assert done.returncode == 1, done.stderr


def test_it_is_built_once(client: str) -> None:
    first = BUILDERS[client](downloads())
    made = first.stat().st_mtime_ns
    assert BUILDERS[client](downloads()) == first
    assert first.stat().st_mtime_ns == made
    left = [path.name for path in downloads().glob(f".download-{client}*")]
    assert left == [], "nothing that it was built in stays"


def test_another_source_is_another_program(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(program: Path) -> None:
        program.write_text("x")
        made.append(program)

    paths = [built.kept(tmp_path / "cache", "p", source, make) for source in (b"1", b"1", b"2")]
    assert paths[0] == paths[1] != paths[2]
    assert len(made) == 2
    assert sorted((tmp_path / "cache").iterdir()) == sorted({*paths})


def test_a_build_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    def make(program: Path) -> None:
        built.run("make", ["sh", "-c", "echo no luck >&2; exit 3"], tmp_path, {}, 10, "try again")

    with pytest.raises(CannotHonour, match="make failed and said: no luck") as told:
        built.kept(tmp_path / "cache", "p", b"1", make)
    assert told.value.hint == "try again"
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(CannotHonour, match=r"does not end within 0\.1 s"):
        built.run("make", ["sleep", "60"], tmp_path, {"PATH": "/usr/bin:/bin"}, 0.1, "")


def test_without_cargo_the_client_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    assert CLIENTS["reqwest"].missing() == ("cargo",)
    with pytest.raises(CannotHonour, match="no cargo command"):
        built.build_reqwest(tmp_path)
