"""Hints name the package that this system has, by its own manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.platforms import packages


@pytest.mark.parametrize(
    ("text", "manager"),
    [
        ("ID=debian\n", "apt"),
        ("ID=ubuntu\nID_LIKE=debian\n", "apt"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf"),
        ("ID=fedora\n", "dnf"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "zypper"),
        ('ID="opensuse-leap"\n', "zypper"),
        ("ID=alpine\n", "apk"),
        ("ID=manjaro\nID_LIKE=arch\n", "pacman"),
        ("ID=nixos\n", "apt"),
        ("garbage", "apt"),
    ],
)
def test_the_manager_is_that_of_the_system_or_of_what_it_is_like(
    text: str, manager: str, tmp_path: Path
) -> None:
    path = tmp_path / "os-release"
    path.write_text(text)
    assert packages.manager(path) == manager


def test_names_are_the_systems_own_and_stand_once() -> None:
    wanted = ("nginx-light", "wrk", "iproute2", "redis-server", "redis-tools")
    assert (
        packages.command("apt", wanted) == "apt-get install nginx-light wrk iproute2 redis-server redis-tools"
    )
    assert packages.command("dnf", wanted) == "dnf install nginx wrk iproute redis"
    assert packages.command("zypper", wanted) == "zypper install nginx wrk iproute2 redis"
    assert packages.command("apk", wanted) == "apk add nginx wrk iproute2 redis"


def test_a_system_without_os_release_gets_debians_names(tmp_path: Path) -> None:
    assert packages.manager(tmp_path / "none") == "apt"


def test_every_row_names_every_manager() -> None:
    assert all(len(row) == len(packages._OTHERS) for row in packages._NAMES.values())
    assert set(packages._COMMANDS) == {"apt", *packages._OTHERS}
