"""One OpenStack for all tests of a run, begun in the background as soon as it is known that some test wants it.

It takes 100 s to come up, which nobody has to wait for while there are other tests. Where several processes share the tests,
the one that hands them out begins it and removes it at the end, whatever became of the others.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contend.testbed.openstack.bed import Bed
from contend.testbed.rabbit import node
from support.command_line import wait_for
from support.left_behind import VARIABLE
from support.prerequisites import need
from support.turns import place_of, scopes_told

FIXTURE = "openstack"
COMMAND = (sys.executable, "-P", "-m", "contend.testbed.openstack")
# What a boot with a network takes, as small as it can be.
SMALL = ("--computes=1", "--web-workers=1", "--notifications", "--without=volume", "--without=orchestration")
UP_S = 900.0
_PLACE = "openstack_place"
_BEGUN = pytest.StashKey["Begun"]()


@dataclass(frozen=True)
class Begun:
    """place: of the bed's directory, of what its services are recorded to and of what the command said."""

    place: Path
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class OpenStack:
    """A bed that is up. printed: by the command that brought it up."""

    bed: Bed
    traces: Path
    printed: str

    @property
    def traced(self) -> tuple[str, ...]:
        """What each later `up` has to say too, to leave the services as they are."""
        return ("--traced", str(self.traces))

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return _openstack(self.bed.root, *words, check=check)

    def status(self) -> dict[str, dict[str, Any]]:
        told = json.loads(self("status", "--json", check=False).stdout)
        return {row["service"]: row for row in told["services"]}


def _openstack(root: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, "--root", str(root), *words], capture_output=True, text=True, timeout=UP_S
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def _possible() -> bool:
    return _mariadb() is not None and node.server() is not None


def _mariadb() -> str | None:
    return shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])


def _begin(config: pytest.Config) -> Begun:
    place = Path(tempfile.mkdtemp(prefix="contend-openstack-"))
    words = ("--root", str(place / "bed"), "up", *SMALL, "--traced", str(place / "traces"))
    # The status is there when all that was said is.
    line = f'"$@" >{place}/out 2>{place}/err; echo $? >{place}/code.part; mv {place}/code.part {place}/code'
    begun = Begun(
        place,
        subprocess.Popen(
            ["sh", "-c", line, "sh", *COMMAND, *words],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, VARIABLE: f"{FIXTURE} (fixture of a session)"},
        ),
    )
    config.stash[_BEGUN] = begun
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # it is removed after that too
    return begun


def pytest_unconfigure(config: pytest.Config) -> None:
    if _BEGUN not in config.stash:
        return
    begun = config.stash[_BEGUN]
    del config.stash[_BEGUN]
    try:
        if begun.process.poll() is None:  # nobody waited for it
            os.killpg(begun.process.pid, signal.SIGTERM)
        begun.process.wait()
        _openstack(begun.place / "bed", "down", "--wipe")
    finally:
        shutil.rmtree(begun.place, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the process that hands out tests, for each that runs them: where the bed will be told to be."""
    node.workerinput[_PLACE] = str(_told(node.config))


def _told(config: pytest.Config) -> Path:
    return place_of(config) / _PLACE


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """In the process that hands out tests."""
    config = node.config
    if _BEGUN in config.stash or f"with {FIXTURE}" not in scopes_told(config).values() or not _possible():
        return
    told = _told(config)
    part = told.with_suffix(".part")
    part.write_text(str(_begin(config).place), encoding="utf-8")
    part.replace(told)


@pytest.fixture(scope="session")
def openstack(request: pytest.FixtureRequest) -> Iterator[OpenStack]:
    """The bed, with services that are recorded; up since before the first test that reads this."""
    need(_mariadb(), "mariadb-server")
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    told = getattr(request.config, "workerinput", {}).get(_PLACE)
    if told is None:
        place = _begin(request.config).place
    else:
        wait_for(Path(told).exists, "OpenStack that was begun", 60)
        place = Path(Path(told).read_text(encoding="utf-8"))
    wait_for((place / "code").exists, "OpenStack that is up", UP_S, interval_s=0.2)
    assert (place / "code").read_text().strip() == "0", (place / "err").read_text()
    bed = Bed.load(place / "bed")
    assert bed is not None
    yield OpenStack(bed, place / "traces", (place / "out").read_text(encoding="utf-8"))
