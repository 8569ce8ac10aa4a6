"""scripts/packages.sh, with a directory of its own as PATH and a stand-in for apt-get that only takes notes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "packages.sh"
POLICY = Path("/usr/sbin/policy-rc.d")
TOOLS = ("sh", "id", "cut", "sort", "tr", "mktemp", "python3", "rm", "tail", "env", "chmod", "touch", "cat")

needs_root = pytest.mark.needs(
    os.geteuid() == 0, "a mount namespace of one's own, with an empty /usr/sbin, needs root"
)
# What it leaves in that /usr/sbin is copied out.
ALONE = """
mount -t tmpfs none /usr/sbin || exit 99
[ ! -e "$1/before" ] || cp "$1/before" /usr/sbin/policy-rc.d
PATH=$1 sh "$2" "$3"
code=$?
[ ! -e /usr/sbin/policy-rc.d ] || cp /usr/sbin/policy-rc.d "$1/after"
exit $code
"""


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in TOOLS:
        (directory / tool).symlink_to(str(shutil.which(tool)))
    return directory


def run(bin_: Path, what: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(bin_), **env}
    return subprocess.run(
        ["sh", str(SCRIPT), what], env=environment, capture_output=True, text=True, timeout=30
    )


def run_alone(bin_: Path, what: str, **env: str) -> subprocess.CompletedProcess[str]:
    """In an /usr/sbin of its own: this machine's may hold somebody's policy, and is not to be written to."""
    words = ("unshare", "--mount", "sh", "-c", ALONE, "alone", str(bin_), str(SCRIPT), what)
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=30, env={"PATH": "/usr/bin:/bin", **env}
    )
    assert done.returncode != 99, done.stderr
    return done


def apt_get(bin_: Path, then: str) -> None:
    program = bin_ / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$*" >>"{bin_}/calls"\n[ -x {POLICY} ] && cat {POLICY} >>"{bin_}/policy"\n{then}\n'
    )
    program.chmod(0o755)


def test_no_apt_says_which_workloads_are_left_out_and_goes_on(bin_: Path) -> None:
    done = run(bin_, "demo", NO_APT="1")
    assert done.returncode == 0
    assert "workload fio (needs fio)" in done.stderr
    assert "hint: apt-get install" in done.stderr
    assert done.stdout == ""


def test_in_ci_a_missing_prerequisite_of_a_test_fails(bin_: Path) -> None:
    assert run(bin_, "test", NO_APT="1", CI="true").returncode == 1
    assert run(bin_, "test", NO_APT="1").returncode == 0
    assert run(bin_, "demo", NO_APT="1", CI="true").returncode == 0


def test_quiet_when_nothing_is_missing(bin_: Path) -> None:
    for program in ("ffmpeg", "fio", "nginx", "wrk", "stress-ng", "ip", "cc"):
        (bin_ / program).symlink_to("/bin/true")
    done = run(bin_, "demo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_it_is_asked_must_be_known(bin_: Path) -> None:
    assert run(bin_, "everything").returncode == 2


@needs_root
def test_it_says_what_it_installs_and_keeps_services_from_starting(bin_: Path) -> None:
    apt_get(bin_, f'case "$*" in *" -y "*) for p in fio wrk; do ln -s /bin/true "{bin_}/$p"; done;; esac')
    (bin_ / "ln").symlink_to(str(shutil.which("ln")))
    for program in ("ffmpeg", "nginx", "stress-ng", "ip", "cc"):
        (bin_ / program).symlink_to("/bin/true")
    done = run_alone(bin_, "demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "packages: installing fio wrk (no service is started)\n"
    calls = (bin_ / "calls").read_text()
    assert "install -y --no-install-recommends fio wrk" in calls
    assert "DPkg::Lock::Timeout=900" in calls
    assert "update" not in calls
    assert "exit 101" in (bin_ / "policy").read_text()
    assert not (bin_ / "after").exists()


@needs_root
@pytest.mark.parametrize(("ci", "unsafe"), [("true", True), ("", False)])
def test_only_a_machine_of_ci_does_not_wait_for_its_disk(bin_: Path, ci: str, unsafe: bool) -> None:
    apt_get(bin_, "exit 100")
    run_alone(bin_, "demo", CI=ci)
    assert ("--force-unsafe-io" in (bin_ / "calls").read_text()) == unsafe


@needs_root
def test_the_policy_is_removed_when_apt_fails(bin_: Path) -> None:
    apt_get(bin_, "echo E: no such package >&2; exit 100")
    done = run_alone(bin_, "demo")
    assert done.returncode == 0
    assert "E: no such package" in done.stderr
    assert "left out" in done.stderr
    assert "exit 101" in (bin_ / "policy").read_text()
    assert "update" in (bin_ / "calls").read_text()
    assert not (bin_ / "after").exists()


@needs_root
def test_a_policy_that_exists_is_left_alone(bin_: Path) -> None:
    apt_get(bin_, "exit 100")
    (bin_ / "before").write_text("#!/bin/sh\nexit 0\n")
    run_alone(bin_, "demo")
    assert (bin_ / "after").read_text() == "#!/bin/sh\nexit 0\n"
