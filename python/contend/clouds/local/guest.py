"""The initramfs of a micro-VM, made here, whose only program says that it serves.

The guest's init prints `contend served NAME UPTIME` on the console and sleeps. NAME comes by the kernel's command line
(the kernel hands `contend=NAME` to init's environment), UPTIME is of the guest's own clock, which its kernel starts.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms import processes
from contend.platforms.guests import initramfs
from contend.platforms.guests.initramfs import Node, archive
from contend.platforms.packages import install_command

SAYS = b"contend served "
_COMPILE_S = 60.0
_SERVED = re.compile(re.escape(SAYS) + rb"[0-9]+ ([0-9]+\.[0-9]+)")
_BUSYBOX_INIT = """\
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
read -r up rest < /proc/uptime
echo "contend served $contend $up"
exec /bin/busybox sleep 1000000
"""
_C_INIT = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec up;
    const char *name = getenv("contend");
    clock_gettime(CLOCK_BOOTTIME, &up);
    dprintf(1, "contend served %s %ld.%06ld\\n", name ? name : "", (long)up.tv_sec, up.tv_nsec / 1000);
    for (;;) pause();
}
"""


def command_line(number: int) -> str:
    """Kernel command line of the guest with that number."""
    # No timer check: under emulation it finds the timer late now and then, and the kernel panics.
    return f"console=ttyS0 quiet panic=-1 no_timer_check contend={number}"


class Console:
    """Output of a guest's console so far. Moments are CLOCK_MONOTONIC ns, 0 for not yet.

    >>> console = Console()
    >>> console.hear(b"Booting\\ncontend served 3 0.71\\r\\n", now_ns=900)
    >>> console.last, console.served_ns, console.uptime_ns
    ('Booting', 900, 710000000)
    """

    def __init__(self) -> None:
        self.served_ns = 0
        self.uptime_ns = 0  # by the guest's clock, when it served
        self.last = ""  # line that told of something else
        self._heard = b""

    def hear(self, data: bytes, now_ns: int) -> None:
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            served = _SERVED.search(line)
            if served is None:
                self.last = line.strip().decode(errors="replace") or self.last
            elif not self.served_ns:
                self.served_ns, self.uptime_ns = now_ns, round(float(served[1]) * 1e9)

    @property
    def kernel_ns(self) -> int:
        """Moment at which the guest's kernel started its clock: what came before is firmware and unpacking."""
        return self.served_ns - self.uptime_ns if self.served_ns else 0


def make_initramfs(target: Path, scratch: Path) -> str:
    """Write an initramfs; returns what its init is. Raises CannotHonour where this host has nothing to make one of."""
    console = Node("dev/console", 0o020600, rdev=(5, 1))  # the kernel opens it as init's standard streams
    nodes = [*(Node(name, 0o040755) for name in ("dev", "bin", "proc")), console]
    program = initramfs.of_this_host()
    if program is not None:
        nodes += [Node("bin/busybox", 0o100755, program.read_bytes())]
        nodes += [Node("init", 0o100755, _BUSYBOX_INIT.encode())]
        made_of = str(program)
    else:
        nodes += [Node("init", 0o100755, _compiled(scratch))]
        made_of = "a static program compiled here"
    target.write_bytes(archive(nodes))
    return made_of


def need_init() -> None:
    """Check that a guest's init can be made. Raises CannotHonour."""
    if initramfs.of_this_host() is None and shutil.which("cc") is None:
        raise CannotHonour(
            "a micro-VM needs a program to boot into: there is neither a static busybox nor a C compiler",
            hint=install_command("busybox-static"),
        )


def _compiled(scratch: Path) -> bytes:
    need_init()
    source, program = scratch / "init.c", scratch / "init"
    source.write_text(_C_INIT, encoding="ascii")
    words = ("cc", "-static", "-Os", "-s", "-o", str(program), str(source))
    ended, output = processes.run(words, _COMPILE_S, scratch)
    if ended.code != 0:
        raise CannotHonour(
            f"no static program can be compiled for a micro-VM: {output.strip()[-200:]}",
            hint=install_command("busybox-static"),
        )
    return program.read_bytes()
