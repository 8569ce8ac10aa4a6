"""Hosts over SSH, by asyncssh: looked at, all of them, before anything begins; joined to a fleet; made to leave it.

Keys, users, ports and known hosts are OpenSSH's own (`~/.ssh/config`, `~/.ssh/known_hosts`, the agent). A host whose key
is not known is refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from contend import __version__
from contend.errors import BadInput, HostFailed
from contend.files import read_named
from contend.shape import Shape

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

T = TypeVar("T")
AT_ONCE = 64
CONNECT_S = 10.0
PYTHON = (3, 11)
MOST_CONFIG = 1 << 20
"""Bytes of an OpenSSH configuration that is read."""


@dataclass(frozen=True, slots=True)
class Way(Shape):
    """How hosts are reached. contend: the command that starts it there; config: an OpenSSH client configuration."""

    contend: str = "contend"
    config: str = ""

    def __post_init__(self) -> None:
        if not self.contend.split():
            raise BadInput(
                "--contend names no command",
                hint="what starts contend on a host: --contend /opt/contend/bin/contend",
            )


@dataclass(frozen=True, slots=True)
class Problem:
    host: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.host}: {self.message}" + (f" ({self.hint})" if self.hint else "")


async def connect(host: str, way: Way) -> SSHClientConnection:
    """Raises HostFailed with what is in the way, and what to do about it; BadInput for a configuration without end."""
    import asyncssh

    user, _, name = host.rpartition("@")
    options: dict[str, Any] = {"username": user} if user else {}
    if way.config:
        if os.path.exists(way.config):  # noqa: PTH110 - Path's raises where it may not look
            read_named(Path(way.config), most=MOST_CONFIG, hint="--ssh-config takes an OpenSSH configuration")
        options["config"] = [way.config]
    name_s = f"cannot reach '{host}'"
    try:
        return await asyncio.wait_for(
            asyncssh.connect(name, keepalive_interval=15, connect_timeout=CONNECT_S, **options), 2 * CONNECT_S
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise HostFailed(
            f"the host key of '{host}' is not known: {error.reason}",
            hint=f"compare it with the host's own, then accept it: ssh {host}",
        ) from error
    except asyncssh.PermissionDenied as error:
        raise HostFailed(
            f"'{host}' lets this user not in: {error.reason}", hint=f"try: ssh {host}"
        ) from error
    except socket.gaierror as error:
        raise HostFailed(
            f"no host is called '{name}': {error.strerror}", hint="a name or address that ssh knows"
        ) from error
    except ConnectionRefusedError as error:
        raise HostFailed(f"{name_s}: SSH is refused", hint="does sshd run there, on that port?") from error
    except RecursionError as error:
        raise HostFailed(
            f"{name_s}: {way.config or '~/.ssh/config'} includes itself", hint="see its Include lines"
        ) from error
    except TimeoutError as error:
        raise HostFailed(f"{name_s} within {CONNECT_S:g} s", hint=f"try: ssh {host}") from error
    except (
        OSError,
        asyncssh.Error,
        ValueError,
    ) as error:  # the last: of a configuration or a key that it cannot read
        raise HostFailed(f"{name_s}: {error}", hint=f"try: ssh {host}") from error


async def ask(
    host: str, way: Way, words: str, given: str = "", limit_s: float = 120.0
) -> tuple[int, str, str]:
    """Exit status, output and errors of a command there. Raises HostFailed where it cannot be asked."""
    import asyncssh

    try:
        connection = await connect(host, way)
        try:
            stdin: dict[str, Any] = {"input": given} if given else {"stdin": asyncssh.DEVNULL}
            done = await asyncio.wait_for(connection.run(words, check=False, **stdin), limit_s)
        finally:
            connection.close()
    except TimeoutError as error:
        raise HostFailed(
            f"'{host}' did not answer within {limit_s:g} s: {words}", hint=f"try: ssh {host}"
        ) from error
    except (OSError, asyncssh.Error) as error:
        raise HostFailed(f"the connection to '{host}' broke: {error}", hint=f"try: ssh {host}") from error
    code = -1 if done.returncode is None else done.returncode  # None: the connection broke first
    return code, str(done.stdout or ""), str(done.stderr or "")


async def of_all(hosts: Sequence[str], act: Callable[[str], Awaitable[T]]) -> dict[str, T | HostFailed]:
    """What `act` gave for each host, or why it could not; some at once."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(host: str) -> T | HostFailed:
        async with limit:
            try:
                return await act(host)
            except HostFailed as error:
                return error

    return dict(zip(hosts, await asyncio.gather(*(one(host) for host in hosts)), strict=True))


async def own_address(host: str, way: Way) -> str:
    """The starting machine's address as this host sees it."""
    connection = await connect(host, way)
    try:
        return str(connection.get_extra_info("sockname")[0])
    finally:
        connection.close()


async def look(host: str, way: Way) -> Problem | None:
    """What keeps a host from joining, before anything is started there. Raises HostFailed where it is not reached."""
    first = way.contend.split()[0]
    words = f"if command -v {first} >/dev/null 2>&1; then {way.contend} fleet join --check; else echo absent; python3 -V; fi"
    code, out, err = await ask(host, way, words)
    if out.startswith("absent"):
        return absent(host, way.contend, out + err)
    try:
        told = _said(host, code, out, err)
    except HostFailed:
        _, version, _ = await ask(host, way, f"{way.contend} --version")
        last = (err.strip().splitlines() or out.strip().splitlines() or ["nothing"])[0]
        has = version.strip() or f"exit status {code}"
        return Problem(host, f"its contend ({has}) knows no fleets: {last}", _install())
    return judged(host, told)


def judged(host: str, told: Mapping[str, Any]) -> Problem | None:
    """From what a host's contend says of itself.

    >>> judged("a", {"contend": "0.0.1", "missing": "", "python": "3.11.2"}).message.startswith("it has contend 0.0.1")
    True
    """
    if told["contend"] != __version__:
        return Problem(host, f"it has contend {told['contend']}, and this is {__version__}", _install())
    if told["missing"]:
        return Problem(host, str(told["missing"]), f"there: {told['install']}")
    return None


def absent(host: str, command: str, said: str) -> Problem:
    """There is no contend; perhaps because its Python is too old for one.

    >>> absent("a", "contend", "absent\\nPython 3.9.2\\n").message
    'its Python is 3.9.2, and contend needs 3.11 or later'
    """
    words = said.split()
    version = words[words.index("Python") + 1] if "Python" in words[:-1] else ""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < PYTHON:
        return Problem(
            host,
            f"its Python is {version}, and contend needs {PYTHON[0]}.{PYTHON[1]} or later",
            "install a later one, and contend with it",
        )
    return Problem(host, f"there is no '{command}'", f"{_install()}; or say where it is: --contend COMMAND")


def _install() -> str:
    return f"install the same version there: pip install 'contend[fleet]=={__version__}'"


async def join(host: str, way: Way, document: Mapping[str, Any]) -> dict[str, Any]:
    """Start a host's worker. Raises HostFailed with what it said."""
    words = f"{way.contend} fleet join - --background"
    code, out, err = await ask(host, way, words, json.dumps(document))
    if code != 0:
        said = next(
            (line for line in err.splitlines() if line.startswith("error: ")), err.strip() or out.strip()
        )
        raise HostFailed(
            f"{host}: {said.removeprefix('error: ')}", hint=f"{host}: the worker.log of the fleet"
        )
    return _said(host, code, out, err)


async def leave(host: str, way: Way, fleet: str, *, purge: bool) -> dict[str, Any]:
    """End a host's worker and all it left. Raises HostFailed."""
    words = f"{way.contend} fleet leave {fleet}" + (" --purge" if purge else "")
    return _said(host, *await ask(host, way, words))


def _said(host: str, code: int, out: str, err: str) -> dict[str, Any]:
    """The document that a command there printed, which stands in its last line: a login shell may greet before it.

    >>> _said("a", 0, "Welcome to a\\n{\\"ended\\": true}\\n", "")
    {'ended': True}
    """
    told = None
    with suppress(ValueError):
        told = json.loads(out.strip().rpartition("\n")[2])
    if not isinstance(told, dict):
        said = (err or out).strip()[:200] or "it said nothing"
        raise HostFailed(f"{host}: exit status {code}: {said}", hint=f"try: ssh {host}")
    return told
