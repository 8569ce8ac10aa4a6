"""Who is meant by a name: of a group, a unit, a process, a program; and whose limits are not to be changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from contend.contention.tenants import Tenant, tenant
from contend.errors import BadInput
from contend.platforms import cgroups
from support.prerequisites import need


@dataclass(frozen=True)
class Made:
    """A unit's groups, with two processes of a program that only they run."""

    inner: str
    groups: tuple[Path, ...]
    first: subprocess.Popen[bytes]
    second: subprocess.Popen[bytes]
    program: str


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    need(os.geteuid() == 0, "run as root: groups are made")
    layout = cgroups.read_layout()
    if layout.v2 is not None and "cpu" in layout.v2.controllers:
        roots = [layout.v2.root]
    else:
        roots = [layout.v1[name].root for name in ("cpu", "freezer") if name in layout.v1]
    inner = f"some-{os.getpid()}.slice/mine-{os.getpid()}.service"
    groups = tuple(root / inner for root in roots)
    program = f"own-{os.getpid()}"[:15]
    shutil.copy("/bin/sleep", tmp_path / program)
    started = [subprocess.Popen([tmp_path / program, "100"]) for _ in range(2)]
    for group in groups:
        group.mkdir(parents=True)
        for process in started:
            (group / "cgroup.procs").write_text(str(process.pid))
    try:
        yield Made(inner, groups, *started, program)
    finally:
        for process in started:
            process.kill()
            process.wait()
        for group in groups:
            group.rmdir()
            group.parent.rmdir()


def test_groups_units_processes_and_programs(made: Made) -> None:
    both = frozenset({made.first.pid, made.second.pid})
    for name in (f"/{made.inner}", Path(made.inner).name):
        of = tenant(name)
        assert (set(of.groups), of.pids) == (set(made.groups), both), name
        assert of.why_not() == ""
    whole = tenant(Path(made.inner).parent.name)
    assert whole.pids == both, "a slice has the processes of the groups below it"
    one = tenant(str(made.first.pid))
    assert (one.groups, one.pids) == ((), frozenset({made.first.pid})), "the group is another's, too"
    with pytest.raises(BadInput, match="is the name of 2: processes"):
        tenant(made.program)
    made.second.kill()
    made.second.wait()
    alone = tenant(made.program)
    assert alone.pids == {made.first.pid}
    assert {group.name for group in alone.groups} == {Path(made.inner).parent.name}, (
        "as far up as nobody else is in it"
    )


def test_whose_limits_stay(made: Made) -> None:
    unit = tenant(f"/{made.inner}")
    victim = tenant(str(made.first.pid))
    assert "itself runs in" in unit.why_not(victim)
    assert "contend itself" in Tenant("shell", (), frozenset({os.getpid()})).why_not()
    assert "first process" in Tenant("init", (), frozenset({1})).why_not()
    assert "kernel" in Tenant("kthreadd", (), frozenset({2})).why_not()
    assert "no process" in Tenant("nobody", (), frozenset()).why_not()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("999999999", "no process has the number"),
        ("/", "no control group that could be treated"),
        ("/../../etc", "no control group that could be treated"),
        ("/no/such.slice", "no control group is called"),
        ("no-such-thing.service", "no unit called"),
        ("no-such-thing", "nobody on this host is called"),
    ],
)
def test_who_is_not_there_is_an_error_with_a_hint(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as error:
        tenant(name)
    assert error.value.hint


@pytest.fixture
def container(tmp_path: Path) -> Iterator[str]:
    """A container, and a process that was started in it from outside, as a health check is."""
    need(os.geteuid() == 0 and shutil.which("podman"), "podman, as root")
    need(Path("/bin/busybox").exists(), "/bin/busybox")
    name = f"tenant-{os.getpid()}"
    files = tmp_path / "root.tar"
    subprocess.run(["tar", "-C", "/", "-chf", str(files), "bin/busybox"], check=True)
    few = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
    try:
        for command in (
            ("import", "-q", str(files), name),
            (
                "run",
                "-d",
                "--rm",
                *few,
                "--network",
                "none",
                "--name",
                name,
                name,
                "/bin/busybox",
                "sleep",
                "100",
            ),
            ("exec", "-d", name, "/bin/busybox", "sleep", "99"),
        ):
            done = subprocess.run(["podman", *command], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
        yield name
    finally:
        subprocess.run(["podman", "rm", "-f", "-t", "0", name], capture_output=True, timeout=60)
        subprocess.run(["podman", "rmi", name], capture_output=True, timeout=60)


def test_a_container_is_its_group_with_all_that_was_started_in_it(container: str) -> None:
    of = tenant(container)
    assert len(of.pids) == 2 and of.why_not() == ""
    number = subprocess.run(
        ["podman", "inspect", "--format", "{{.Id}}", container], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert of.groups and all(number in group.name for group in of.groups)
