"""Groups of a watch: what it puts tasks together by, what a group is called, and which of them a user means."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

MOST_SEEN = 65_536  # processes: a watch of days sees millions
MOST_OF_SCRIPT = 40  # characters
By = Literal["auto", "cgroup", "process", "vm"]
_QEMU = re.compile(r"^(qemu-system-|qemu-kvm|kvm:|qemu:)")
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|php)[\d.]*:|(node|java|sh|bash|dash|zsh):")
_INLINE = re.compile(r"-|-[A-Za-z]{0,3}[ce]|--eval")
"""Options after which there is no script: it is given on the command line, or read from standard input."""
_NAMES_SCRIPT = frozenset(("-m", "-jar", "--jar"))
_TAKES_VALUE = frozenset(
    ("-W", "-X", "-r", "--require", "--import", "-cp", "-classpath", "--class-path", "--module-path", "-o")
)
_MACHINE = re.compile(r"machine-qemu\\x2d\d+\\x2d(?P<name>[^/]+)\.scope")


def choose(by: By, memberships: Iterable[str] | None = None) -> Literal["cgroup", "process"]:
    """Choose what the probe groups by. `auto`: cgroups where processes are spread over several besides the root.

    `memberships` are the texts of /proc/PID/cgroup of all processes; None reads them.

    >>> choose("auto", ["0::/\\n", "0::/system.slice/a.service\\n", "0::/system.slice/b.service\\n"])
    'cgroup'
    >>> choose("auto", ["0::/\\n", "12:cpu:/x\\n0::/\\n"]), choose("vm")
    ('process', 'process')
    """
    if by == "cgroup":
        return "cgroup"
    if by != "auto":
        return "process"
    cgroups: set[str] = set()
    for text in _memberships() if memberships is None else memberships:
        cgroups.update(line[3:] for line in text.splitlines() if line.startswith("0::"))
    return "cgroup" if len(cgroups - {"/", ""}) > 1 else "process"


def _memberships() -> Iterable[str]:
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                yield (directory / "cgroup").read_text(encoding="utf-8", errors="replace")
            except OSError:  # ended meanwhile
                continue


def machine_name(command: str, cgroup: str) -> str | None:
    """The name of a QEMU process's machine: by libvirt's scope, or by `-name`. `command` is /proc/PID/cmdline.

    >>> machine_name("qemu-system-x86_64\\0-name\\0guest=web-1,debug-threads=on\\0", "")
    'web-1'
    >>> machine_name("qemu-kvm\\0", "0::/machine.slice/machine-qemu\\\\x2d3\\\\x2ddb\\\\x2d2.scope/libvirt\\n")
    'db-2'
    """
    if match := _MACHINE.search(cgroup):
        return re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), match["name"])
    words = command.split("\0")
    for option, value in itertools.pairwise(words):
        if option in ("-name", "--name"):
            first = next(
                (part for part in value.split(",") if part.startswith("guest=")), value.split(",")[0]
            )
            return first.removeprefix("guest=")
    return None


def script_of(command: str) -> str:
    """The name of the script that an interpreter runs; "" for none. `command` is /proc/PID/cmdline.

    >>> script_of("python3\\0-u\\0/opt/backup.py\\0--all\\0"), script_of("python3\\0-m\\0http.server\\0")
    ('backup.py', 'http.server')
    >>> script_of("java\\0-cp\\0a:b\\0-Xmx1g\\0com.example.Main\\0"), script_of("bash\\0-lc\\0make all\\0")
    ('com.example.Main', '')
    """
    words = iter(command.split("\0")[1:])
    for word in words:
        if _INLINE.fullmatch(word):
            return ""
        if word in _NAMES_SCRIPT:
            word = next(words, "")
        elif word in _TAKES_VALUE:
            next(words, None)
            continue
        elif word.startswith("-"):
            continue
        return word.rpartition("/")[2][:MOST_OF_SCRIPT]
    return ""


@dataclass(slots=True)
class Namer:
    """Names as the probe gives them (`name:pid`), a machine's instead of its QEMU's, and an interpreter's with its script.

    One pid keeps one name: a process that changed it by exec is shown by its latest, as the same group. `asks` False:
    of a host of another day, whose machines are all known. `niced`: processes that give way by their own wish, or take
    more, with their nice value when they were first seen.
    """

    by_pid: dict[str, str] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    niced: dict[str, int] = field(default_factory=dict)
    asks: bool = True
    _seen: set[str] = field(default_factory=set)

    def __call__(self, label: str) -> str:
        if self.asks and label not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(label)
            if (nice := _nice(label.rpartition(":")[2])) and len(self.niced) < MOST_SEEN:
                self.niced[label] = nice
        if _QEMU.match(label):
            return self._of_machine(label)
        return self._of_script(label) if _INTERPRETER.match(label) else label

    def _of_machine(self, label: str) -> str:
        pid = label.rpartition(":")[2]
        if pid not in self.by_pid:
            name = self._machine(pid) if self.asks else None
            self.by_pid[pid] = label if name is None else f"{name}:{pid}"
            if name is not None:
                self.machines.add(self.by_pid[pid])
        return self.by_pid[pid]

    def _of_script(self, label: str) -> str:
        program, _, pid = label.rpartition(":")
        if (name := self.by_pid.get(pid)) is not None and name.startswith(f"{program} "):
            return name
        script = script_of(_read(pid, "cmdline")) if self.asks and len(self.by_pid) < MOST_SEEN else ""
        if not script:
            return label
        self.by_pid[pid] = f"{program} {script}:{pid}"
        return self.by_pid[pid]

    @staticmethod
    def _machine(pid: str) -> str | None:
        return machine_name(_read(pid, "cmdline"), _read(pid, "cgroup"))


def _read(pid: str, name: str) -> str:
    """A text of /proc on a process; "" where it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _nice(pid: str) -> int:
    """The nice value of a process by the kernel; 0 where it has ended, or is none.

    >>> import os
    >>> _nice(str(os.getpid())) == os.getpriority(os.PRIO_PROCESS, 0), _nice("4711x"), _nice("/system.slice")
    (True, 0, 0)
    """
    if not pid.isdecimal():
        return 0
    try:
        return os.getpriority(os.PRIO_PROCESS, int(pid))
    except OSError:
        return 0


def program_of(name: str) -> str:
    """The program's name in a group's name as the probe gives it.

    >>> program_of("nginx:4711"), program_of("nginx"), program_of("python3 backup.py:4711")
    ('nginx', 'nginx', 'python3 backup.py')
    """
    return name.rpartition(":")[0] or name


def names_of(pid: int) -> tuple[str, ...]:
    """The names of a process: its program's; an interpreter's also with its script, and that script's.

    >>> import os
    >>> len(names_of(os.getpid())) in (1, 3), names_of(2**22 + 1)
    (True, ())
    """
    program = _read(str(pid), "comm").rstrip("\n")
    script = script_of(_read(str(pid), "cmdline")) if _INTERPRETER.match(f"{program}:") else ""
    names = (f"{program} {script}", program, script) if script else (program,)
    return names if program else ()


def matches(scope: str, name: str) -> bool:
    """True if what a user typed means this group: a cgroup (with those below it), a glob, a pid or a name, also of a script.

    >>> [matches(s, "/system.slice/nginx.service") for s in ("/system.slice", "*/nginx.*", "nginx", "/sys")]
    [True, True, False, False]
    >>> [matches(s, "nginx:4711") for s in ("nginx", "4711", "ngin*", "71")]
    [True, True, True, False]
    >>> [matches(s, "python3 backup.py:4711") for s in ("python3", "backup.py", "python3 backup.py", "backup")]
    [True, True, True, False]
    """
    if name == scope or fnmatchcase(name, scope):
        return True
    if name.startswith("/"):
        return name.startswith(scope.rstrip("/") + "/") if scope.startswith("/") else False
    head, _, pid = name.rpartition(":")
    program, _, script = head.partition(" ")
    if (
        script
        and _INTERPRETER.match(f"{program}:")
        and (fnmatchcase(program, scope) or fnmatchcase(script, scope))
    ):
        return True
    return scope == pid or fnmatchcase(head, scope)
