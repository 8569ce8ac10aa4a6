"""One guest: started, its plan carried out, ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hosts.image import Made
from hosts.kinds import Kind
from support import chroots

EMULATOR = ("qemu-system-x86", "qemu-utils")
# Emulated, a kernel that guards against a processor's faults is slower still, and a walk of five levels of pages, too.
LINE = (
    "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off systemd.show_status=false root=/dev/vda rw"
)


class Ended(Exception):
    """A guest that ended, or fell silent, before its plan was through: the last line of its console."""


def carried_out(
    kind: Kind, made: Made, steps: Sequence[Mapping[str, Any]], place: Path, within_s: float
) -> Iterator[dict[str, Any]]:
    """What the guest says of its start and of each step, as it comes. Raises Ended."""
    plan, overlay, console = place / "plan", place / "overlay.qcow2", place / "console"
    text = json.dumps({"steps": list(steps)}).encode()
    plan.write_bytes(text + bytes(-len(text) % 4096))
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", made.disk.resolve(), overlay],
        check=True,
    )
    ours, theirs = socket.socketpair()
    command: list[str | Path] = [
        *("qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", f"max,la57=off{kind.cpu}"),
        *("-smp", kind.smp, "-m", f"{kind.memory_mib}M", *kind.qemu, "-rtc", "base=utc"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", made.kernel, "-initrd", made.initramfs, "-append", f"{LINE} {kind.words}"),
        *("-serial", f"file:{console}"),
        *("-drive", f"if=none,id=disk,file={overlay},format=qcow2", "-device", "virtio-blk-pci,drive=disk"),
        *(
            "-drive",
            f"if=none,id=plan,file={plan},format=raw,readonly=on",
            "-device",
            "virtio-blk-pci,drive=plan",
        ),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=results,fd={theirs.fileno()}"),
        *("-device", "virtserialport,chardev=results,name=results"),
    ]
    # The QEMU of Debian 12 emulates AVX so that numpy's sorting ends in a segmentation fault now and then.
    inside = chroots.inside_of(emulator(), command, cwd=place, shown=[place, made.disk.parent])
    with ours, subprocess.Popen(inside, pass_fds=[theirs.fileno()], start_new_session=True) as process:
        theirs.close()
        try:
            yield from _heard(ours, time.monotonic() + within_s, console)
        finally:
            with_group = os.getpgid(process.pid)
            os.killpg(with_group, signal.SIGKILL)
            process.wait()
            overlay.unlink()


def emulator() -> Path:
    """The root of a Debian 13, whose QEMU starts the guests; made where it is not there."""
    return chroots.made("trixie", EMULATOR)


def _heard(ours: socket.socket, until: float, console: Path) -> Iterator[dict[str, Any]]:
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(ours, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                break
            data = ours.recv(1 << 16)
            if not data:
                break
            *lines, kept = (kept + data).split(b"\n")
            for line in lines:
                said: dict[str, Any] = json.loads(line)
                if "done" in said:
                    return
                yield said
    lines = (
        console.read_text(encoding="utf-8", errors="replace").strip().splitlines() if console.exists() else []
    )
    raise Ended(lines[-1] if lines else "no word on its console")
