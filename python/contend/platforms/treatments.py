"""Settings of control groups and processes that are not contend's: as they stand, as they are for a moment, and back.

A change is reversible or it is refused: both values are known before anything is written, and how they read. When to write
is for `contend.platforms.interventions` to say, which keeps a ledger and a watchdog.

Kernel: Documentation/admin-guide/cgroup-v2.rst; scheduler/sched-bwc.rst, cgroup-v1/ for the older hierarchies.
"""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from contend.errors import CannotHonour, HostFailed
from contend.platforms import confinement, heirs, moving, procfs, weighed
from contend.platforms.bandwidth import MIN_QUOTA_US
from contend.platforms.topology import format_cpu_list

GROUP, NICE = "changed-limit", "changed-nice"
"""Kinds of a ledger: a limit of a group, and the nice value of a process, that are changed for moments."""
KINDS = (GROUP, NICE, moving.KIND)

_ABSENT = {
    "io.max": "rbps=max wbps=max riops=max wiops=max",
    **{f"blkio.throttle.{way}_{what}_device": "0" for way in ("read", "write") for what in ("iops", "bps")},
}
"""What it means that a device has no line in such a file."""
_WEIGHTS_OF_DISKS: Mapping[weighed.DiskScheduler, tuple[tuple[str, str, int], ...]] = {
    "io.cost": (("io.weight", "default", 1),),
    "bfq": (("io.bfq.weight", "default", 1), ("blkio.bfq.weight", "", 1)),
    "cfq": (("blkio.weight", "", 10),),
}
"""The files that each goes by: their names, keys and least values."""
THROTTLES = tuple(f"blkio.throttle.{way}_bps_device" for way in ("read", "write"))
_FILES = frozenset(
    (
        *("cpu.weight", "cpu.max", "io.weight", "io.bfq.weight", "cpuset.cpus", "cgroup.freeze"),
        *("cpu.shares", "cpu.cfs_quota_us", "blkio.weight", "blkio.bfq.weight", "freezer.state"),
        *_ABSENT,
    )
)
_DEVICE = re.compile(r"\d+:\d+")
_KEYED = re.compile(r"(?P<file>/.+) (?P<key>default|\d+:\d+)")
_SETTLES_S = 0.1  # a freezer of version 1 reads FREEZING for a moment
_ON_ITS_WAY = {"FROZEN": "FREEZING"}
"""What is read while not all of a group is frozen: for good, while one of its processes waits in the kernel."""


class Setting(Protocol):
    """Something that has a value, as text."""

    @property
    def kind(self) -> str:
        """Its kind in a ledger."""

    @property
    def name(self) -> str:
        """Its name in a ledger, by which `setting` finds it again."""

    def read(self) -> str | None:
        """Its value now; None where there is none any more."""

    def write(self, value: str) -> None:
        """Raises HostFailed where the kernel refuses it."""


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """A file of a control group, or the line of one with that key: a device, or `default`.

    >>> GroupLimit(Path("/sys/fs/cgroup/a.slice/io.max"), "8:0").name
    '/sys/fs/cgroup/a.slice/io.max 8:0'
    """

    file: Path
    key: str = ""
    kind = GROUP

    @property
    def name(self) -> str:
        return f"{self.file} {self.key}".rstrip()

    def read(self) -> str | None:
        try:
            text = self.file.read_text(encoding="ascii").strip()
        except OSError:  # the group is gone
            return None
        if not self.key:
            return text
        lines = (line.partition(" ") for line in text.splitlines())
        return next((value for key, _, value in lines if key == self.key), _ABSENT.get(self.file.name, ""))

    def write(self, value: str) -> None:
        # An empty write is none: of an empty set of CPUs the line end tells.
        text = f"{self.key} {value}" if self.key else value or "\n"
        try:
            self.file.write_text(text, encoding="ascii")
        except OSError as error:
            raise HostFailed(
                f"cannot write '{text.strip()}' to {self.file}: {error.strerror}", hint="contend doctor"
            ) from error


@dataclass(frozen=True, slots=True)
class ProcessNice:
    """The nice value that all threads of a process share. start_ticks: another process of that number is not meant."""

    pid: int
    start_ticks: int
    kind = NICE

    @property
    def name(self) -> str:
        return f"{self.pid}:{self.start_ticks}"

    def values(self) -> set[int]:
        """The nice values of its threads; none where it has ended."""
        values = set()
        for thread in self._threads():
            if (value := heirs.nice_of(thread)) is not None:
                values.add(value)
        return values

    def read(self) -> str | None:
        values = self.values()
        return ",".join(map(str, sorted(values))) if values else None

    def write(self, value: str, only: str | None = None) -> None:
        """only: to the threads that have this value; None: to all."""
        # A thread that begins meanwhile has the value of the one that began it: looked for until all have the new one.
        for _ in range(100):
            nice = {thread: heirs.nice_of(thread) for thread in self._threads()}
            others = [
                thread
                for thread, now in nice.items()
                if now not in (int(value), None) and (only is None or now == int(only))
            ]
            if not others:
                return
            for thread in others:
                heirs.renice(thread, int(value), self.pid)

    def _threads(self) -> list[int]:
        status = procfs.stat(self.pid)
        if status is None or status.start_ticks != self.start_ticks:
            return []
        return heirs.threads_of(self.pid)


def setting(kind: str, name: str) -> Setting:
    """The setting that a row of a ledger names. Raises HostFailed for what is none.

    >>> setting(NICE, "7:345")
    ProcessNice(pid=7, start_ticks=345)
    """
    if kind == NICE and re.fullmatch(r"\d{1,10}:\d{1,20}", name):
        pid, _, start = name.partition(":")
        return ProcessNice(int(pid), int(start))
    if kind == moving.KIND and (moved := moving.parse(name)) is not None:
        if confinement.in_hierarchy(str(moved.origin)) is None:
            raise confinement.stranger(name, "settings")
        return moved
    keyed = _KEYED.fullmatch(name)
    file = Path(keyed["file"] if keyed else name)
    if kind != GROUP or file.name not in _FILES or confinement.in_hierarchy(str(file)) is None:
        raise confinement.stranger(name, "settings")
    return GroupLimit(file, keyed["key"] if keyed else "")


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting with its value as it stands and the one under treatment."""

    setting: Setting
    before: str
    during: str


def io_max(line: str) -> dict[str, str]:
    """The limits of a device in io.max.

    >>> io_max("rbps=max wbps=7")
    {'rbps': 'max', 'wbps': '7'}
    """
    return {key: value for key, _, value in (word.partition("=") for word in line.split())}


def put(of: Setting, value: str) -> bool:
    """Write a value and see that it is there; False where there is nothing any more. Raises HostFailed."""
    of.write(value)
    until = time.monotonic() + _SETTLES_S
    while (now := of.read()) not in (value, None):
        if time.monotonic() > until:
            raise HostFailed(
                f"{of.name} reads '{now}' after '{value}' was written",
                hint="another manager owns it, or a group above it is limited",
            )
        time.sleep(0.002)
    return now is not None


def stands(switch: Switch) -> bool:
    """Is a treatment's value there, in part or on its way? The threads of a process get theirs one after another."""
    if (now := switch.setting.read()) is None:
        return False
    if isinstance(switch.setting, ProcessNice):
        return switch.during in now.split(",")
    return now in (switch.during, _ON_ITS_WAY.get(switch.during))


def take_back(switch: Switch) -> bool:
    """Put back what stands of a treatment. False where nothing does, or nothing is there any more. Raises HostFailed."""
    of = switch.setting
    if not stands(switch):
        return False
    if not isinstance(of, ProcessNice):
        return put(of, switch.before)
    of.write(switch.before, only=switch.during)  # another value is of somebody else's
    if stands(switch):
        raise HostFailed(f"process {of.pid} still has threads of nice {switch.during}", hint="renice them")
    return of.read() is not None


def announced(kind: str, name: str, row: Mapping[str, Any]) -> Switch | None:
    """The change that a ledger announced; None for one of another boot. Raises HostFailed for what is no setting."""
    if row.get("boot_id") != procfs.boot_id():
        return None
    return Switch(setting(kind, name), str(row["before"]), str(row["during"]))


def restore(kind: str, name: str, row: Mapping[str, Any]) -> bool:
    """Put back what a ledger says was changed. False where that is not to be: it is as it was, is gone, or is by now what
    somebody else has made it, which is theirs. Raises HostFailed."""
    switch = announced(kind, name, row)
    if switch is None or not take_back(switch):
        return False
    # Only of a treatment that nobody had ended yet: what is begun after its end has nothing from it.
    if isinstance(since := row.get("since_ticks"), int):
        heirs.put_back(treated([switch]).values(), since)
    return True


def treated(switches: Iterable[Switch]) -> dict[Switch, heirs.Treated]:
    """The processes whose nice value changes, those that live, by their switches."""
    alive = {}
    for switch in switches:
        of = switch.setting
        if isinstance(of, ProcessNice):
            one = heirs.Treated.now(of.pid, of.start_ticks, switch.before, switch.during)
            if one is not None:
                alive[switch] = one
    return alive


def cpu_weight(groups: Sequence[Path], part: float = 0.1) -> Switch:
    """A part of the group's weight for the CPU. Raises CannotHonour."""
    return _lighter(groups, (("cpu.weight", "", 1), ("cpu.shares", "", 2)), part, "cpu")


def io_weight(
    groups: Sequence[Path], weighing: Iterable[weighed.DiskScheduler] | None = None, part: float = 0.1
) -> Switch:
    """A part of the group's weight for disks. weighing: what weighs on them; None: look. Raises CannotHonour."""
    if weighing is None:
        weighing = weighed.disk_schedulers(used := disks_used(groups))
        if groups and not used:
            raise _no_disk()
        if used and not weighing:
            raise CannotHonour(
                f"weights mean nothing to the scheduler of the disks that it has used ({', '.join(used)})",
                hint="--by io-limit; or echo bfq > /sys/block/DISK/queue/scheduler",
            )
    files = [file for by in weighing for file in _WEIGHTS_OF_DISKS[by]]
    return _lighter(groups, files, part, "io")


def io_limit(groups: Sequence[Path], bytes_per_s: int) -> list[Switch]:
    """So many bytes a second from and to each disk that the group has used. Raises CannotHonour."""
    switches = []
    for device in disks_used(groups):
        if (of := _of(groups, "io.max", device)) is not None:
            before = of.read() or ""
            most = {
                key: _less(value, "max", bytes_per_s)
                for key, value in io_max(before).items()
                if key[1:] == "bps"
            }
            during = " ".join(f"{key}={value}" for key, value in (io_max(before) | most).items())
            switches.append(Switch(of, before, during))
            continue
        for name in THROTTLES:
            if (of := _of(groups, name, device)) is None:
                raise _none(groups, "io")
            before = of.read() or "0"
            switches.append(Switch(of, before, _less(before, "0", bytes_per_s)))
    if not switches:
        raise _no_disk()
    if all(switch.during == switch.before for switch in switches):
        raise CannotHonour(
            f"{switches[0].setting.name} allows no more than that already", hint="a smaller limit"
        )
    return [switch for switch in switches if switch.during != switch.before]


def _no_disk() -> CannotHonour:
    return CannotHonour(
        "it has used no disk so far, by its group's io.stat", hint="treat its CPU: --by weight"
    )


def _less(before: str, none: str, most: int) -> str:
    """A limit that is no looser than the one there was; none: how the file says that there is none."""
    return str(most) if before == none else str(min(int(before), most))


def disks_used(groups: Sequence[Path]) -> list[str]:
    """Numbers of the disks that a group has used, as its account has them."""
    numbers = set()
    for group in groups:
        for name in ("io.stat", "blkio.throttle.io_service_bytes"):
            for line in procfs.text_or_empty(group / name).splitlines():
                device, _, rest = line.partition(" ")
                if _DEVICE.fullmatch(device) and re.search(r"[1-9]", rest):
                    numbers.add(device)
    return sorted(numbers)


def _lighter(groups: Sequence[Path], files: Iterable[tuple[str, str, int]], part: float, what: str) -> Switch:
    for name, key, least in files:
        if (of := _of(groups, name, key)) is None:
            continue
        before = of.read() or ""
        if not before.isdigit():
            continue
        during = max(least, round(int(before) * part))
        if during >= int(before):
            raise CannotHonour(f"{of.name} is at its least already: {before}", hint="treat it by a quota")
        return Switch(of, before, str(during))
    raise _none(groups, what)


def cpu_quota(groups: Sequence[Path], cpus: float) -> Switch:
    """So many CPUs' time. Raises CannotHonour where there is no quota to set, or the group has less already."""
    if (of := _of(groups, "cpu.max")) is not None:
        before = of.read() or ""
        had, _, period = before.partition(" ")
        quota = max(MIN_QUOTA_US, round(cpus * int(period)))
        switch = Switch(of, before, f"{quota} {period}")
        less = had != "max" and int(had) <= quota
    elif (of := _of(groups, "cpu.cfs_quota_us")) is not None:
        before = of.read() or ""
        period = procfs.text_or_empty(of.file.with_name("cpu.cfs_period_us"))
        quota = max(MIN_QUOTA_US, round(cpus * int(period)))
        switch = Switch(of, before, str(quota))
        less = 0 <= int(before) <= quota
    else:
        raise _none(groups, "cpu")
    if less:
        raise CannotHonour(f"{of.name} allows no more than that already: {before}", hint="a smaller quota")
    return switch


def cpu_set(groups: Sequence[Path], cpus: Iterable[int]) -> Switch:
    """Those CPUs alone. Raises CannotHonour."""
    if (of := _of(groups, "cpuset.cpus")) is None:
        raise _none(groups, "cpuset")
    before, during = of.read() or "", format_cpu_list(cpus)
    if before == during:
        raise CannotHonour(f"{of.name} is CPU {before} already", hint="other CPUs")
    return Switch(of, before, during)


def freeze(groups: Sequence[Path]) -> Switch:
    """Nothing in the group runs. Raises CannotHonour."""
    for name, before, during in (("cgroup.freeze", "0", "1"), ("freezer.state", "THAWED", "FROZEN")):
        if (of := _of(groups, name)) is not None:
            if of.read() != before:
                raise CannotHonour(f"{of.name} is '{of.read()}' already", hint="thaw it first")
            return Switch(of, before, during)
    raise _none(groups, "freezer")


def group(pids: Collection[int]) -> Switch:
    """A control group of their own, with a tenth of a weight, for processes that share theirs. Raises CannotHonour."""
    moved = moving.of(pids)
    return Switch(moved, str(moved.origin), str(moved.own))


def nice(pids: Iterable[int], value: int = 19) -> list[Switch]:
    """A nice value for processes. Raises CannotHonour where it could not be taken back."""
    switches = []
    for pid in pids:
        status = procfs.stat(pid)
        if status is None or status.state in "ZX":
            continue
        of = ProcessNice(pid, status.start_ticks)
        values = of.values()
        if len(values) > 1:
            raise CannotHonour(f"threads of process {pid} differ in nice value", hint="treat its cgroup")
        if not values or (before := values.pop()) >= value:
            continue
        if os.geteuid() not in (0, procfs.effective_user(pid)):
            raise CannotHonour(f"process {pid} is another user's", hint="run as root, or with CAP_SYS_NICE")
        if not _may_lower(before):
            raise CannotHonour(
                f"process {pid} could be made nicer, but not be put back to {before}",
                hint="run as root, or with CAP_SYS_NICE",
            )
        switches.append(Switch(of, str(before), str(value)))
    if not switches:
        raise CannotHonour("no process is there that is not as nice already", hint="treat a cgroup")
    return switches


def _may_lower(to: int) -> bool:
    """Root may lower a nice value, and others as far as RLIMIT_NICE lets them: setrlimit(2)."""
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20 - to


def _of(groups: Sequence[Path], name: str, key: str = "") -> GroupLimit | None:
    """That file of whichever hierarchy has it, where this user may write it."""
    for group in groups:
        if os.access(group / name, os.R_OK | os.W_OK):
            return GroupLimit(group / name, key)
    return None


def _none(groups: Sequence[Path], what: str) -> CannotHonour:
    if not groups:
        return CannotHonour(
            "it has no control group of its own, and only nice works without",
            hint="give it one, and name that: mkdir below /sys/fs/cgroup, its pid into cgroup.procs there, --against /NAME",
        )
    names = ", ".join(map(str, groups))
    return CannotHonour(
        f"there is no {what} setting that this user may change in {names}",
        hint="run as root, and have systemd delegate the controller: Delegate=cpu cpuset io",
    )
