"""Hosts over SSH, by asyncssh: looked at, all of them, before anything begins; joined to a fleet; made to leave it.

Keys, users, ports and known hosts are OpenSSH's own (`~/.ssh/config`, `~/.ssh/known_hosts`, the agent). A host whose key
is not known is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from contend import __version__
from contend.errors import BadInput, HostFailed
from contend.files import NO_OUTPUT
from contend.platforms import ssh
from contend.platforms.ssh import Unreached
from contend.text.shape import Shape

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

T = TypeVar("T")
AT_ONCE = 64
CONNECT_S = 10.0
PYTHON = (3, 11)


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
    """Connect to a host. Raises HostFailed with the reason and what to do; BadInput for a configuration without end."""
    user, _, name = host.rpartition("@")
    options: dict[str, Any] = {"username": user} if user else {}
    try:
        return await ssh.connect(
            name, config=way.config or None, within_s=CONNECT_S, keepalive_interval=15, **options
        )
    except Unreached as error:
        why, hint = _why(host, name, way, error)
        raise HostFailed(why, hint=hint) from error


def _why(host: str, name: str, way: Way, error: Unreached) -> tuple[str, str]:
    """Name what is in the way, and what to do about it."""
    no, again = f"cannot reach '{host}'", f"try: ssh {host}"
    known: dict[str, tuple[str, str]] = {
        "key": (
            f"the host key of '{host}' is not known: {error.why}",
            f"compare it with the host's own, then accept it: ssh {host}",
        ),
        "denied": (f"'{host}' lets this user not in: {error.why}", again),
        "name": (f"no host is called '{name}': {error.why}", "a name or address that ssh knows"),
        "refused": (f"{no}: SSH is refused", "does sshd run there, on that port?"),
        "loop": (f"{no}: {way.config or '~/.ssh/config'} includes itself", "see its Include lines"),
        "late": (f"{no} within {CONNECT_S:g} s", again),
    }
    return known.get(error.reason, (f"{no}: {error.why}", again))


async def ask(
    host: str, way: Way, words: str, given: str = "", limit_s: float = 120.0
) -> tuple[int, str, str]:
    """Run a command on a host: exit status, output and errors. Raises HostFailed where it cannot be run."""
    connection = await connect(host, way)
    try:
        done = await ssh.ask(connection, words, given, limit_s=limit_s)
    except Unreached as error:
        why = f"the connection to '{host}' broke: {error.why}"
        if error.reason == "late":
            why = f"'{host}' did not answer within {limit_s:g} s: {words}"
        raise HostFailed(why, hint=f"try: ssh {host}") from error
    finally:
        connection.close()
    return -1 if done.code is None else done.code, done.out, done.err


async def of_all(hosts: Sequence[str], act: Callable[[str], Awaitable[T]]) -> dict[str, T | HostFailed]:
    """Run `act` for every host, several at once: each result, or why it failed."""
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
    """Find what keeps a host from joining, before anything is started there. Raises HostFailed where it is not reached."""
    first = way.contend.split()[0]
    words = f"if command -v {first} >/dev/null 2>&1; then {way.contend} fleet join --check; else echo absent; python3 -V; fi"
    code, out, err = await ask(host, way, words)
    if out.startswith("absent"):
        return absent(host, way.contend, out + err)
    try:
        description = _document(host, code, out, err)
    except HostFailed:
        _, version, _ = await ask(host, way, f"{way.contend} --version")
        last = (err.strip().splitlines() or out.strip().splitlines() or ["nothing"])[0]
        has = version.strip() or f"exit status {code}"
        return Problem(host, f"its contend ({has}) knows no fleets: {last}", _install())
    return judged(host, description)


def judged(host: str, description: Mapping[str, Any]) -> Problem | None:
    """Judge whether a host can join, from what its contend reports.

    >>> judged("a", {"contend": "0.0.1", "missing": "", "python": "3.11.2"}).message.startswith("it has contend 0.0.1")
    True
    """
    if description["contend"] != __version__:
        return Problem(
            host, f"it has contend {description['contend']}, and this is {__version__}", _install()
        )
    if description["missing"]:
        return Problem(host, str(description["missing"]), f"there: {description['install']}")
    return None


def absent(host: str, command: str, output: str) -> Problem:
    """The problem of a host without contend; perhaps its Python is too old for one.

    >>> absent("a", "contend", "absent\\nPython 3.9.2\\n").message
    'its Python is 3.9.2, and contend needs 3.11 or later'
    """
    words = output.split()
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
    """Start a host's worker. Raises HostFailed with the message that it printed."""
    words = f"{way.contend} fleet join - --background"
    code, out, err = await ask(host, way, words, json.dumps(document))
    if code != 0:
        message = next(
            (line for line in err.splitlines() if line.startswith("error: ")), err.strip() or out.strip()
        )
        raise HostFailed(
            f"{host}: {message.removeprefix('error: ')}", hint=f"{host}: the worker.log of the fleet"
        )
    return _document(host, code, out, err)


async def leave(host: str, way: Way, fleet: str, *, purge: bool) -> dict[str, Any]:
    """End a host's worker and all it left. Raises HostFailed."""
    words = f"{way.contend} fleet leave {fleet}" + (" --purge" if purge else "")
    return _document(host, *await ask(host, way, words))


def _document(host: str, code: int, out: str, err: str) -> dict[str, Any]:
    """The document that a command there printed, which stands in its last line: a login shell may greet before it.

    >>> _document("a", 0, "Welcome to a\\n{\\"ended\\": true}\\n", "")
    {'ended': True}
    """
    document = None
    with suppress(ValueError):
        document = json.loads(out.strip().rpartition("\n")[2])
    if not isinstance(document, dict):
        output = (err or out).strip()[:200] or NO_OUTPUT
        raise HostFailed(f"{host}: exit status {code}: {output}", hint=f"try: ssh {host}")
    return document
