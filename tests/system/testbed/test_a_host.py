"""contend, from wheels, on a host like its users' own: Debian 13 with systemd, cgroup v2 and Docker, emulated.

What works there alone counts: an emulated host is too slow for verdicts. All kinds of hosts: tests/accept/test_hosts.py.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hosts.__main__ import tried
from hosts.kinds import DEFAULT, Image
from support.installed import built
from support.prerequisites import need

pytestmark = [pytest.mark.system, pytest.mark.one_of("cargo"), pytest.mark.timeout(1500)]

SMALL = Image(
    "trixie",
    (
        *(
            "systemd-sysv",
            "libpam-systemd",
            "dbus",
            "procps",
            "iproute2",
            "kmod",
            "busybox-static",
            "python3",
        ),
        *("docker.io", "docker-cli"),
    ),
    contend="contend",
    tests=False,
)
STEPS = ["watch", "Docker"]


def test_it_measures_there(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "run as root: a root file system is made")
    wheels = built(tmp_path / "dist", "contend", "contend-probe")
    host = tried(replace(DEFAULT, image=SMALL), wheels, STEPS)
    assert {step["step"]: step["came"] for step in host["steps"]} == dict.fromkeys(STEPS, "works"), host
