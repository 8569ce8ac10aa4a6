"""A contend-probe on a host with less than it wants: each handicap is a script that starts the real one under it.

What is taken away is taken away in namespaces and processes of its own; the host is as it was.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from contend.probes.client import program
from support.prerequisites import need

# Refuses bpf(2), as a container's default filter and a locked down kernel do, and is then the program.
REFUSE_BPF = """
import ctypes, os, struct, sys
arch, bpf = {"x86_64": (0xC000003E, 321), "aarch64": (0xC00000B7, 280)}[os.uname().machine]
EPERM, ALLOW = 0x00050001, 0x7FFF0000
steps = [(0x20, 0, 0, 4), (0x15, 0, 3, arch), (0x20, 0, 0, 0), (0x15, 0, 1, bpf), (0x06, 0, 0, EPERM), (0x06, 0, 0, ALLOW)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(filters)))
libc = ctypes.CDLL(None, use_errno=True)
for call in ((38, 1, 0, 0, 0), (22, 2, program)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP: see prctl(2)
    if libc.prctl(*call):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True)
class Handicap:
    """`lines` of shell before the probe is started by `start`; `why` it then says it has no BPF."""

    name: str
    why: str
    lines: str = ""
    start: str = ""
    own_mounts: bool = False

    def __str__(self) -> str:
        return self.name

    def probe(self, directory: Path) -> Path:
        """A contend-probe under it, for CONTEND_PROBE; its files are in the directory."""
        need(os.geteuid() == 0, "taking something away needs root")
        for tool in ("setpriv", "unshare"):
            need(shutil.which(tool), f"{tool} of util-linux")
        found = program()
        need(found is not None, "contend-probe")
        (directory / "empty").mkdir()
        (directory / "file").touch()
        (directory / "refuse.py").write_text(REFUSE_BPF, encoding="utf-8")
        names = {"place": directory, "python": sys.executable}
        quoted = {name: shlex.quote(str(path)) for name, path in names.items()}
        inner = directory / "inner"
        start = self.start.format(**quoted)
        inner.write_text(
            f'#!/bin/sh\nset -e\n{self.lines.format(**quoted)}\nexec {start} {shlex.quote(str(found))} "$@"\n',
            encoding="utf-8",
        )
        inner.chmod(0o755)
        if not self.own_mounts:
            return inner
        outer = directory / "contend-probe"
        outer.write_text(f'#!/bin/sh\nexec unshare -m --propagation private {inner} "$@"\n', encoding="utf-8")
        outer.chmod(0o755)
        return outer


_FEWER = "setpriv --bounding-set={0} --inh-caps={0}".format("-sys_admin,-bpf,-perfmon")
_REFUSING = "{python} -S {place}/refuse.py"
_TYPES = "/sys/kernel/btf/vmlinux"
NO_TYPES = Handicap("no BTF", f"no {_TYPES}", "mount --bind {place}/empty /sys/kernel/btf", own_mounts=True)
EMPTY_TYPES = Handicap(
    "BTF is empty", f"{_TYPES}, cannot be read", f"mount --bind {{place}}/file {_TYPES}", own_mounts=True
)
NO_CAPABILITY = Handicap("no CAP_BPF", "BPF is not permitted", start=_FEWER)
REFUSED = Handicap("bpf() refused", "BPF is not permitted", start=_REFUSING)
LOCKED_DOWN = Handicap(
    "lockdown",
    "locked down (confidentiality)",
    "mount -t tmpfs tmpfs /sys/kernel/security\n"
    "echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown",
    _REFUSING,
    own_mounts=True,
)
ALL = (NO_TYPES, EMPTY_TYPES, NO_CAPABILITY, REFUSED, LOCKED_DOWN)
