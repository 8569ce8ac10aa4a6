"""SSH by asyncssh: opens connections and runs commands. Errors carry a reason, which callers put into words."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from contend.errors import HostFailed
from contend.files import read_named

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

MOST_CONFIG = 1 << 20
"""Bytes of an OpenSSH configuration that is read."""
Reason = Literal["key", "denied", "name", "refused", "loop", "late", "other"]


class Unreached(HostFailed):
    """No connection, or none any more. `reason`: the host's key is not the known one; the user is denied; no such name; the
    port is refused; the configuration includes itself; it was not in time; anything else."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(f"the SSH connection broke: {why}")
        self.reason, self.why = reason, why


class Ended(NamedTuple):
    """The end of a command on the other host. code: None where the connection broke before it ended."""

    code: int | None
    out: str
    err: str


async def connect(
    address: str, *, config: str | None = None, within_s: float, **options: Any
) -> SSHClientConnection:
    """Connect to a host. Raises Unreached; BadInput for a configuration without end.

    config: an OpenSSH client configuration; "" for none, None for the user's own. options: asyncssh's.
    """
    import asyncssh

    if config:
        if os.path.exists(config):  # noqa: PTH110 - Path's raises where it may not look
            read_named(Path(config), most=MOST_CONFIG, hint="--ssh-config takes an OpenSSH configuration")
        options["config"] = [config]
    elif config is not None:
        options["config"] = []
    try:
        return await asyncio.wait_for(
            asyncssh.connect(address, connect_timeout=within_s, **options), 2 * within_s
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise Unreached("key", error.reason) from error
    except asyncssh.PermissionDenied as error:
        raise Unreached("denied", error.reason) from error
    except socket.gaierror as error:
        raise Unreached("name", str(error.strerror)) from error
    except ConnectionRefusedError as error:
        raise Unreached("refused", str(error)) from error
    except RecursionError as error:
        raise Unreached("loop", "its configuration includes itself") from error
    except TimeoutError as error:
        raise Unreached("late", str(error) or f"not within {within_s:g} s") from error
    except (
        OSError,
        asyncssh.Error,
        ValueError,
    ) as error:  # the last: of a configuration or key it cannot read
        raise Unreached("other", str(error) or type(error).__name__) from error


async def ask(connection: SSHClientConnection, words: str, given: str = "", *, limit_s: float) -> Ended:
    """Run a command on the other host, with `given` as its input. Raises Unreached where it breaks, or is not done in
    time."""
    import asyncssh

    stdin: dict[str, Any] = {"input": given} if given else {"stdin": asyncssh.DEVNULL}
    try:
        done = await asyncio.wait_for(connection.run(words, check=False, **stdin), limit_s)
    except TimeoutError as error:
        raise Unreached("late", "in time") from error
    except (OSError, asyncssh.Error) as error:
        raise Unreached("other", str(error)) from error
    return Ended(done.returncode, str(done.stdout or ""), str(done.stderr or ""))


@asynccontextmanager
async def started(connection: SSHClientConnection, words: str) -> AsyncIterator[SSHClientProcess[str]]:
    """Start a command on the other host; its input stays open while the block runs. Raises Unreached where the
    connection breaks."""
    import asyncssh

    try:
        process = await connection.create_process(words)
        try:
            yield process
        finally:
            process.close()
    except (OSError, asyncssh.Error) as error:
        raise Unreached("other", str(error)) from error
