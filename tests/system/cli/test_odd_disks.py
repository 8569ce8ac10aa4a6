"""Places that a run may be told to use: a disk with no room for more files, one over the network, a home that nobody can
write to, no home at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import nobody
from support.command_line import CONTEND, Home, Said, check_files, rows, wait_for
from support.prerequisites import Cannot, cannot, need

pytestmark = pytest.mark.system


def mounted(place: Path, *words: str) -> Iterator[Path]:
    need(os.geteuid() == 0 and shutil.which("mount"), "mounting a file system needs root")
    place.mkdir()
    subprocess.run(["mount", *words, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[Path]:
    """A file system with space, and room for 200 files."""
    yield from mounted(tmp_path / "few", "-t", "tmpfs", "-o", "size=64m,nr_inodes=200", "tmpfs")


@pytest.fixture
def over_the_network(tmp_path: Path) -> Iterator[Path]:
    """A directory of this host, mounted from its own NFS server."""
    served = "\tnfsd\n" in Path("/proc/filesystems").read_text()
    if not (served and shutil.which("exportfs") and shutil.which("mount.nfs")):
        cannot(Cannot.NFS)
    need(os.geteuid() == 0, "serving a directory over NFS needs root")
    with ExitStack() as ends:
        shared = tmp_path / "shared"
        shared.mkdir()
        subprocess.run(["exportfs", "-o", "rw,no_root_squash,fsid=4711", f"127.0.0.1:{shared}"], check=True)
        ends.callback(subprocess.run, ["exportfs", "-u", f"127.0.0.1:{shared}"], check=True)
        yield from mounted(tmp_path / "nfs", "-t", "nfs", f"127.0.0.1:{shared}")


def test_no_room_for_more_files(contend: Home, few_files: Path) -> None:
    runs = few_files / "runs"
    with contend.start("run", contend.scenario(blocks=400), "--runs", str(runs)) as process:
        wait_for(lambda: any(len(rows(run)) > 3 for run in runs.glob("*")), "four trials")
        number = 0
        try:
            while True:
                (few_files / f"filler-{number}").touch()
                number += 1
        except OSError:
            out, err = process.communicate(timeout=120)
    Said(process.returncode, out, err).error(1, "No space left on device", "no more files (df -i)")
    (run,) = runs.iterdir()
    check_files(run)
    assert len(rows(run)) > 3
    contend.nothing_left()
    contend("run", contend.scenario(blocks=2), "--runs", str(runs)).error(1, "No space left")
    assert len(rows(run)) > 3
    check_files(run)


def test_runs_over_the_network(contend: Home, over_the_network: Path) -> None:
    runs = over_the_network / "runs"
    contend("run", contend.scenario(), "--runs", str(runs)).fine()
    (run,) = runs.iterdir()
    check_files(run)
    contend("report", str(run)).fine()
    contend("destroy", str(run)).fine()


def as_nobody(home: Home, *arguments: str, **changes: str | None) -> Said:
    """contend as a user who owns the test's directory, and nothing else; XDG's directories only where `changes` has them."""
    need(os.geteuid() == 0 and shutil.which("setpriv"), "becoming another user needs root and setpriv")
    for path in (home.path, *home.path.rglob("*")):
        os.chown(path, 4711, 4711)
    who = ["setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups"]
    env = home.environment(XDG_STATE_HOME=None, XDG_CONFIG_HOME=None, XDG_CACHE_HOME=None, **changes)
    done = subprocess.run(
        [*nobody.laid_open(home.path), *who, CONTEND, *arguments],
        env=env,
        capture_output=True,
        text=True,
        cwd=home.path,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def nobodys() -> Iterator[Home]:
    """Not below pytest's directory: another pytest that begins closes that to everybody else."""
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name))
        yield home
        home.nothing_left()


PAIR = ("ab", "-n", "2", "-w", "0", "--", "true", "--vs", "true")


def test_a_user_without_a_home_is_told_what_to_set(nobodys: Home) -> None:
    as_nobody(nobodys, *PAIR, HOME=None).error(
        2, "this user has no home directory", "set HOME, or XDG_STATE_HOME"
    )
    assert not (nobodys.path / "runs").exists()
    as_nobody(nobodys, "list", HOME=None).fine()
    as_nobody(nobodys, "doctor", HOME=None).no_traceback()
    as_nobody(nobodys, *PAIR, HOME=str(nobodys.path)).fine()


@pytest.mark.parametrize("home", ["/nonexistent", "/proc"])
def test_a_home_that_cannot_be_written_to(nobodys: Home, home: str) -> None:
    as_nobody(nobodys, *PAIR, HOME=home).error(1, f"cannot make {home}", "set XDG_STATE_HOME")
    assert not list((nobodys.path / "runs").glob("*"))
    as_nobody(nobodys, "list", HOME=home).fine()
    as_nobody(nobodys, "stats", "--help", HOME=home).fine()
