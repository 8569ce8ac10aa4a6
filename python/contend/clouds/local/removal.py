"""How machines of this host that a run's ledger tells of are removed again.

`contend destroy` removes them after the run's processes: an engine's client that still goes on would make what was not
there yet a moment ago.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from contend import names
from contend.errors import HostFailed
from contend.platforms import calls, engines, kin, network, procfs
from contend.platforms.confinement import OfRun, remove_directory, stranger
from contend.platforms.guests import virsh
from contend.platforms.removers import Removed, Row, attempt, unknown

CONTAINER, VM, TAP, IMAGE = "local-container", "local-vm", "local-tap", "local-image"
DOMAIN, FILES = virsh.KIND, "local-files"
# Of what others than this user must read, such as libvirt's QEMU.
SHARED = Path("/var/tmp")


def let_calls_end(rows: Sequence[Row], within_s: float = 20.0) -> None:
    """End the storms of these rows, and wait for the calls of an engine that they have left going on.

    An engine that is killed while it attaches a container to its network leaves a namespace, a link and an address
    that it does not know any more, and that carry no name of ours. libvirt goes on with what its client asked for.
    """
    runs = {str(row.get("run", "")) for row in rows if row["kind"] in (CONTAINER, DOMAIN)}
    for run in runs - {""}:
        procfs.kill_until_gone(functools.partial(_storms, run))
        # Calls are waited for, not ended. Another user's process that carries their mark costs nothing.
        until = time.monotonic() + within_s
        while procfs.marked(run, member=calls.MEMBER, own=True) and time.monotonic() < until:
            time.sleep(0.05)


def _storms(run: str) -> set[int]:
    """Processes of a run that make machines: this module's callers, by their command line."""
    pids = set()
    for pid in kin.of_run(run) - procfs.marked(run, member=calls.MEMBER):
        with contextlib.suppress(OSError):  # it has ended
            if b"boot-storm-local" in (procfs.PROC / str(pid) / "cmdline").read_bytes():
                pids.add(pid)
    return pids


def remove(rows: Sequence[Row]) -> list[Removed]:
    """Remove the machines that the rows announce."""
    # Listed once: after the run's processes have gone nobody makes any more.
    standing = engines.containers() if any(row["kind"] == CONTAINER for row in rows) else []
    done = []
    for row in rows:
        kind, name, run = str(row["kind"]), str(row["name"]), str(row.get("run", ""))
        done.append(attempt(kind, name, functools.partial(_remove, kind, name, run, row, standing)))
    return done


def new_files(run: str) -> Path:
    """The path of a run's directory in SHARED, not made yet."""
    return SHARED / f"{names.PREFIX}-{names.short_hash(run)}-{secrets.token_hex(3)}"


def _remove_files(folder: Path, run: str) -> bool:
    return remove_directory(str(folder), OfRun(run), (SHARED,))


def _remove(kind: str, name: str, run: str, row: Row, standing: Sequence[tuple[str, str, str]]) -> bool:
    if kind == CONTAINER:
        return engines.remove_container(str(row.get("engine", "")), name, run, standing)
    if kind == IMAGE:
        if not OfRun(run).named(name):
            raise stranger(name, "images")
        return engines.remove_image(str(row.get("engine", "")), name)
    if kind == TAP:
        if not OfRun(run).hashed(name, "ctd"):
            raise stranger(name, "links")
        return network.remove_link(name)
    if kind == DOMAIN:
        virsh.check_known(str(row.get("uri", "")), name)
        return virsh.remove(str(row.get("uri", "")), name, run)
    if kind == FILES:
        return _remove_files(Path(name), run)
    if kind == VM:
        if not name.startswith(f"{names.PREFIX}-{run}-"):
            raise HostFailed(f"'{name}' is not one of contend's machines", hint="the ledger names a stranger")

        def find() -> set[int]:
            return {pid for pid in kin.of_run(run) if procfs.marks(pid) == (run, name)}

        there = bool(find())
        if left := procfs.kill_until_gone(find):
            raise HostFailed(f"processes {sorted(left)} do not die of SIGKILL", hint="stuck in the kernel")
        return there
    raise unknown(kind)
