"""An SSH server for tests, where there is no sshd: `python -m support.ssh_server ADDRESS HOST_KEY AUTHORIZED`.

Real SSH by asyncssh: keys, encryption, sessions. What is asked for is run by a shell with this process's environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys

import asyncssh


async def serve_one(process: asyncssh.SSHServerProcess[bytes]) -> None:
    child = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        process.command or "true",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    # As it comes, both ways: a server says that it listens long before it ends, and some look whether anybody is there.
    given = asyncio.create_task(_feed(process, child.stdin))
    await asyncio.gather(_copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr))
    code = await child.wait()
    given.cancel()
    with contextlib.suppress(OSError, asyncssh.Error):
        process.exit(code)


async def _feed(process: asyncssh.SSHServerProcess[bytes], to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await process.stdin.read(65536):
            to.write(data)
    to.close()


async def _copy(given: asyncio.StreamReader, to: asyncssh.SSHWriter[bytes]) -> None:
    while data := await given.read(65536):
        with contextlib.suppress(OSError, asyncssh.Error):  # nobody is there any more
            to.write(data)


async def main(address: str, key: str, authorized: str) -> None:
    server = await asyncssh.listen(
        address,
        22,
        server_host_keys=[key],
        authorized_client_keys=authorized,
        process_factory=serve_one,
        encoding=None,
        config=[],
    )
    print("listening", flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
