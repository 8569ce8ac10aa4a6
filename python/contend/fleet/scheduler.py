"""The scheduler of one fleet: dask's own, in a process of its own, so that hosts are known after the coordinator died.

Started as `python -m contend.fleet.scheduler FOLDER`, ended by SIGTERM. One that was started for a single run ends by
itself when no client has been there for a while: its hosts then end too, and so does the load they make.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from contend.fleet import folders
from contend.fleet.needs import STATUS, settle_dask

if TYPE_CHECKING:
    from distributed import Scheduler

LOOK_S = 5.0
TRIES = 20


async def serve(folder: Path) -> None:
    from distributed import Scheduler

    settle_dask()
    options = folders.read_json(folder / "fleet.json")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    listen = [str(address) for address in options["listen"]]
    async with Scheduler(
        host=listen,  # type: ignore[arg-type]  # a list is one listener each
        port=int(options["port"]) or common_port(listen),
        protocol="tls",
        security=folders.security(folder),
        dashboard=False,
        dashboard_address=STATUS,  # of its web server, which it starts even so, on all addresses if not told
        http_prefix=None,
    ) as scheduler:
        port = int(scheduler.address.rpartition(":")[2])
        listening = {"port": port, "listen": listen}
        folders.write_json(folder / "scheduler.json", {**folders.process(), **listening})
        patience_s = None if options["keep"] else float(options["lost_s"])
        await _until_alone(scheduler, stop, patience_s)


def common_port(addresses: Sequence[str]) -> int:
    """Find a TCP port that is free at all of these addresses of this machine. Raises OSError for one that is not its
    own."""
    for _ in range(TRIES):
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in addresses]
            try:
                sockets[0].bind((addresses[0], 0))
                port: int = sockets[0].getsockname()[1]
                for each, address in zip(sockets[1:], addresses[1:], strict=True):
                    each.bind((address, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port
    raise OSError(errno.EADDRINUSE, f"no port is free at all of {', '.join(addresses)}")


async def _until_alone(scheduler: Scheduler, stop: asyncio.Event, patience_s: float | None) -> None:
    """Until told to stop; with `patience_s` also until so long without a client."""
    since = time.monotonic()
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), LOOK_S)
        except TimeoutError:
            if len(scheduler.clients) > 1:  # one is the scheduler's own, "fire-and-forget"
                since = time.monotonic()
            if patience_s is not None and time.monotonic() - since > patience_s:
                return


def members(dask_scheduler: Scheduler) -> dict[str, str]:
    """Worker's address by host's name. Runs in the scheduler."""
    return {str(worker.name): worker.address for worker in dask_scheduler.workers.values()}


def main() -> int:
    asyncio.run(serve(Path(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
