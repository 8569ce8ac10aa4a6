"""What a guest of the test bed that is logged in to has, tried in a root directory of its own."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from contend.platforms.guests import initramfs, respond
from contend.testbed.openstack import guest, guest_tools
from support.prerequisites import need


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("guest"), guest_tools.NETWORK)


def unpacked(place: Path, image: guest_tools.Image) -> Path:
    """The archive's files."""
    need(os.geteuid() == 0, "root, to change the root directory")
    need(not guest_tools.lacks(image), guest_tools.lacks(image))
    program = initramfs.of_this_host()
    need(program, "busybox-static")
    assert program is not None
    for node in guest_tools.nodes(image, guest._APPLETS):
        path = place / node.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISDIR(node.mode):
            path.mkdir(exist_ok=True)
        elif stat.S_ISLNK(node.mode):
            path.symlink_to(node.data.decode())
        else:
            path.write_bytes(node.data)
        if not stat.S_ISLNK(node.mode):
            path.chmod(stat.S_IMODE(node.mode))
    (place / "bin/busybox").write_bytes(program.read_bytes())
    (place / "bin/busybox").chmod(0o755)
    return place


@pytest.fixture(scope="module")
def with_fio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("guest-fio"), guest_tools.STORAGE)


def command(root: Path, words: str) -> list[str]:
    return ["chroot", str(root), "/bin/sh", "-c", f"PATH=/usr/sbin:/usr/bin:/sbin:/bin; {words}"]


def said(root: Path, words: str, given: str = "") -> str:
    done = subprocess.run(
        command(root, words), input=given, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "words", ["iperf3 --version", "dropbear -V", "timeout 5 head -n 1 /etc/passwd", "cut -c1 /etc/group"]
)
def test_its_programs_run_with_what_came_along(root: Path, words: str) -> None:
    said(root, words)


def test_its_fio_reads_and_writes_what_it_is_given(with_fio: Path) -> None:
    """With threads and psync, and with Linux's asynchronous requests, which take a library of their own."""
    (with_fio / "data").write_bytes(bytes(2**20))
    for engine in ("psync", "libaio"):
        words = f"fio --name=t --thread --filename=/data --rw=randrw --bs=4k --size=1M --ioengine={engine}"
        told = json.loads(said(with_fio, f"{words} --output-format=json"))
        assert told["jobs"][0]["error"] == 0 and told["jobs"][0]["read"]["total_ios"] > 0


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_its_python_serves_and_sends_requests(root: Path, protocol: str) -> None:
    source = Path(respond.__file__).read_text(encoding="utf-8")
    serve = command(root, f"exec python3 - serve {protocol} 127.0.0.1 20577 1400 20")
    with subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(source)
        server.stdin.close()
        assert server.stdout.readline() == "listening\n"
        told = json.loads(said(root, f"python3 - pace {protocol} 127.0.0.1 20577 1400 0.5 100 3", source))
        assert server.wait(10) == 0, "it ends when its client has"
    assert told["due"] > 20
    assert 10 < len(told["latencies_s"]) <= told["due"], "on a busy host some come late"


def test_nothing_of_it_is_a_distribution(root: Path) -> None:
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < 64 * 2**20
    assert stat.S_IMODE((root / "root/.ssh").stat().st_mode) == 0o700, "or the SSH server takes no key of it"
