"""Python's image clients, as `image-download` starts them, on a server that answers as Glance does behind keystone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.workloads.downloads.clients import CLIENTS, Task, command_of
from support.glance_answers import CONTENT, ID, SHA512, TOKEN, answer, corrupted
from support.prerequisites import need
from support.wire_servers import Server, serving

LIBRARIES = [name for name in CLIENTS if CLIENTS[name].needs[0].startswith("module ")]
# What each says of content that is not what its hash says.
CORRUPT = {
    "requests": "the checksum differs",
    "glanceclient": "Corrupt image download. Hash was",
    "openstacksdk": "checksum mismatch (sha512)",
    "openstacksdk-stream": "checksum mismatch (sha512)",
}


@pytest.fixture
def glance() -> Iterator[Server]:
    with serving(answer) as server:
        yield server


@pytest.fixture(params=LIBRARIES)
def name(request: pytest.FixtureRequest) -> str:
    library: str = request.param
    need(not CLIENTS[library].missing(), f"client {library}: {', '.join(CLIENTS[library].missing())}")
    return library


def download(name: str, task: Task) -> subprocess.CompletedProcess[str]:
    command = command_of(name, task)
    return subprocess.run(command.argv, input=command.stdin, capture_output=True, text=True, timeout=60)


def test_a_library_downloads_with_a_token(name: str, glance: Server, tmp_path: Path) -> None:
    task = Task(glance.url, output=str(tmp_path / "x"), sha512=SHA512, image=ID, token=TOKEN)
    done = download(name, task)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert download(name, Task(glance.url, sha512=SHA512, image=ID, token="another")).returncode != 0


def test_a_library_refuses_what_was_corrupted(name: str, tmp_path: Path) -> None:
    """Only the checksum tells."""
    with serving(lambda request: answer(request, corrupted())) as glance:
        task = Task(glance.url, output=str(tmp_path / "x"), sha512=SHA512, image=ID, token=TOKEN)
        done = download(name, task)
    assert any(b"/file" in request for request in glance.requests), "it was downloaded"
    assert done.returncode != 0
    assert CORRUPT[name] in done.stderr, done.stderr
