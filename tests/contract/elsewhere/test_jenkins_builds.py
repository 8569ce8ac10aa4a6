"""Builds of a Jenkins job, asked of a stand-in that speaks its remote API: followed, refused, stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.elsewhere import builds
from contend.elsewhere.builds import Job
from contend.errors import BadInput, HostFailed
from support import jenkins_server
from support.command_line import wait_for
from support.jenkins_server import Jenkins

JOBS = {
    "quick": jenkins_server.Job("true"),
    "slow": jenkins_server.Job("exec sleep 30"),
    "team/timed": jenkins_server.Job('exec sleep "$SECONDS_"', {"SECONDS_": "0"}),
    "broken": jenkins_server.Job("false"),
    "off": jenkins_server.Job("true", buildable=False),
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jenkins]:
    with jenkins_server.serving(JOBS) as made:
        monkeypatch.setenv(builds.URL, made.url + "/")
        monkeypatch.setenv(builds.USER, jenkins_server.USER)
        monkeypatch.setenv(builds.TOKEN, jenkins_server.TOKEN)
        monkeypatch.setattr(builds, "LOOK_S", 0.02)
        yield made


def test_a_build_is_told_with_its_times(server: Jenkins) -> None:
    job = Job("team/timed")
    job.check({"SECONDS_": "1"})
    server.hold.set()
    queued = job.ask_for({"SECONDS_": "1"})
    threading.Timer(0.5, server.hold.clear).start()
    build = job.follow(queued, 30)
    assert (build.number, build.result) == (1, "SUCCESS")
    assert build.queued_s >= 0.4, "from when it was asked for"
    # Jenkins' stamps are of the wall clock, which is slewed, in whole milliseconds.
    assert build.build_s >= 0.99, "the job sleeps for a second"
    assert build.whole_s == build.queued_s + build.build_s
    (made,) = server.builds.values()
    assert build.build_s == made.duration_ms / 1e3, "by Jenkins' clock"


def test_a_job_with_parameters_has_its_defaults(server: Jenkins) -> None:
    job = Job("team/timed")
    assert job.follow(job.ask_for({}), 30).result == "SUCCESS"


def test_a_build_that_fails_says_so(server: Jenkins) -> None:
    job = Job("broken")
    assert job.follow(job.ask_for({}), 30).result == "FAILURE"


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_build_is_stopped(server: Jenkins, forgotten: bool) -> None:
    job = Job("slow")
    Job("quick").follow(Job("quick").ask_for({}), 30)
    queued = job.ask_for({})
    wait_for(lambda: ("slow", 1) in server.builds, "the build", 10)
    server.forgotten = forgotten  # Jenkins forgets what has left the queue, long builds too
    began = time.monotonic()
    assert job.stop(queued)
    assert time.monotonic() - began < 20
    assert server.builds["slow", 1].result == "ABORTED"
    assert not job.stop(queued), "a second time there is nothing to stop"


def test_what_waits_in_the_queue_is_cancelled(server: Jenkins) -> None:
    job = Job("quick")
    server.hold.set()
    queued = job.ask_for({})
    assert job.stop(queued)
    with pytest.raises(HostFailed, match="cancelled in the queue"):
        job.follow(queued, 30)
    assert not server.going_on()


def test_a_build_that_takes_too_long_says_what_it_waits_for(server: Jenkins) -> None:
    job = Job("quick")
    server.hold.set()
    with pytest.raises(HostFailed, match=r"within 0\.2 s: Waiting for next available executor"):
        job.follow(job.ask_for({}), 0.2)


def test_what_cannot_be_built_is_refused_before_anything_is_measured(server: Jenkins) -> None:
    with pytest.raises(BadInput, match="has no job 'nosuch'"):
        Job("nosuch").check({})
    with pytest.raises(BadInput, match="it is disabled"):
        Job("off").check({})
    with pytest.raises(BadInput, match="has no parameter 'TARGTE'") as said:
        Job("team/timed").check({"TARGTE": "x"})
    assert "SECONDS_" in said.value.hint
    assert not server.items


def test_who_may_not_ask_is_told(server: Jenkins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(builds.TOKEN, "wrong")
    with pytest.raises(HostFailed, match="authentication failed") as said:
        Job("quick").check({})
    assert builds.TOKEN in said.value.hint
    assert "wrong" not in str(said.value), "no password is told"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "is not set"),
        ("ci.example.com", "is no URL"),
        ("https://me:pw@ci.example.com", "holds a password"),
    ],
)
def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch, url: str, said: str) -> None:
    monkeypatch.setenv(builds.URL, url)
    with pytest.raises(BadInput, match=said) as error:
        Job("quick")
    assert "pw" not in f"{error.value} {error.value.hint}".replace("password", "")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(builds.URL, "http://127.0.0.1:9")
    with pytest.raises(HostFailed, match="does not answer"):
        Job("quick").check({})


def test_a_ledgers_row_is_enough_to_stop_a_build(server: Jenkins, tmp_path: Path) -> None:
    job = Job("slow")
    queued = job.ask_for({})
    wait_for(lambda: ("slow", 1) in server.builds, "the build", 10)
    row = {"kind": builds.KIND, "name": "x", "job": "slow", "url": job.url, "queue": str(queued)}
    assert builds.remove(row)
    assert not server.going_on()
    assert not builds.remove({"kind": builds.KIND, "name": "y", "job": "slow", "url": job.url})
