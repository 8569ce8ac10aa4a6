"""SSH into instances, by asyncssh: a key of the run's own, hosts whose keys are those that they first showed.

An instance makes its host keys when it first boots, and nobody else can tell them: the first connection of a run takes what
it is shown, the later ones take nothing else. What an OpenSSH configuration says (ProxyJump, ProxyCommand) holds where one
is named; the user's own is not read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contend.clouds.instances.placed import Placed
from contend.clouds.instances.topology import TOOLS
from contend.errors import HostFailed
from contend.platforms import ssh
from contend.platforms.ssh import Unreached

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

CONNECT_S = 20.0
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Way:
    """user: of the instances; key: the file of the private key; config: an OpenSSH client configuration, "" for none."""

    user: str
    key: Path
    config: str = ""


def make_key(path: Path) -> str:
    """Make a key pair: writes the private one to that file, readable by this user only; returns the public one."""
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(key.export_private_key())
    return key.export_public_key().decode().strip()


async def connect(role: str, to: Placed, way: Way) -> SSHClientConnection:
    """Connect to an instance by SSH. Raises HostFailed with the reason; BadInput for a configuration without end."""
    import asyncssh

    try:
        return await ssh.connect(
            to.reach,
            config=way.config,
            within_s=CONNECT_S,
            login_timeout=CONNECT_S,
            username=way.user,
            client_keys=[str(way.key)],
            known_hosts=asyncssh.import_known_hosts(f"{to.reach} {to.key}\n") if to.key else None,
            agent_path=None,
        )
    except Unreached as error:
        why, hint = _why(role, to, way, error)
        raise HostFailed(why, hint=hint) from error


def _why(role: str, to: Placed, way: Way, error: Unreached) -> tuple[str, str]:
    """Name what is in the way, and what to do about it."""
    if error.reason == "key":
        why = f"instance {role} at {to.reach} has another host key than at first: {error.why}"
        return why, "was it rebuilt, or does another machine answer at its address?"
    if error.reason == "denied":
        hint = "the image's user: --set parameters.user=NAME; does the image take the key pair (cloud-init)?"
        return f"instance {role} does not let {way.user} in: {error.why}", hint
    hint = (
        "a route from here; or --set parameters.external=NETWORK for floating addresses; or"
        " --set parameters.ssh_config=FILE with a ProxyJump"
    )
    return f"instance {role} cannot be reached at {to.reach}: {error.why}", hint


def key_of(connection: SSHClientConnection) -> str:
    """The public key of the server at the other end."""
    key = connection.get_server_host_key()
    return " ".join(key.export_public_key().decode().split()[:2]) if key is not None else ""


async def output_of(role: str, connection: SSHClientConnection, words: str, limit_s: float = LIMIT_S) -> str:
    """Run a command on an instance and return what it prints. Raises HostFailed when it fails."""
    try:
        done = await ssh.ask(connection, words, limit_s=limit_s)
    except Unreached as error:
        raise HostFailed(f"instance {role} did not answer: {error.why}") from error
    if done.code != 0:
        last = (done.err or done.out).strip()[-200:]
        raise HostFailed(f"instance {role}: '{words[:60]}' failed with {done.code}: {last}")
    return done.out


async def ready(
    role: str, to: Placed, way: Way, *, install: bool, within_s: float, tools: Sequence[str] = TOOLS
) -> Placed:
    """Wait until SSH lets us in and the instance has the tools; returns it with its host key. Raises HostFailed.

    install: cloud-init is installing what is missing; else what is missing is an error.
    """
    until = time.monotonic() + within_s
    while True:
        try:
            connection = await connect(role, to, way)
        except HostFailed:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(1.0)
        else:
            break
    async with connection:
        while missing := await _missing(role, connection, tools):
            if not install or time.monotonic() > until:
                raise HostFailed(
                    f"instance {role} has no {' and no '.join(missing)}",
                    hint="cloud-init's log in it says why"
                    if install
                    else "an image that has them; or cloud-init installs them: --set parameters.install=true",
                )
            await asyncio.sleep(2.0)
        output = await output_of(role, connection, _CPU)
        key = key_of(connection)
    return to._replace(key=key, emulated=is_emulated(output))


_NOVA = ("QEMU", "OpenStack Foundation", "Red Hat", "RDO")
# KVM gives its guests a clock of its own; QEMU alone cannot.
_CPU = (
    "cat /sys/class/dmi/id/sys_vendor /sys/devices/system/clocksource/clocksource0/available_clocksource;"
    " uname -m"
)


def is_emulated(output: str) -> bool:
    """True if a guest of QEMU has no KVM below it, by its maker, its clocks and its machine. Of x86 only: others have no
    such clock.

    >>> is_emulated("QEMU\\ntsc hpet acpi_pm\\nx86_64\\n"), is_emulated("QEMU\\nkvm-clock tsc\\nx86_64\\n")
    (True, False)
    >>> is_emulated("OpenStack Foundation\\ntsc hpet\\nx86_64\\n"), is_emulated("Amazon EC2\\nxen tsc\\nx86_64\\n")
    (True, False)
    """
    maker, _, rest = output.partition("\n")
    own = {"kvm-clock", "xen", "hyperv_clocksource_tsc_page"}
    return maker in _NOVA and "x86_64" in rest and not own & set(rest.split())


async def _missing(role: str, connection: SSHClientConnection, tools: Sequence[str]) -> list[str]:
    words = "; ".join(f"command -v {tool} >/dev/null || echo {tool}" for tool in tools)
    return (await output_of(role, connection, words)).split()
