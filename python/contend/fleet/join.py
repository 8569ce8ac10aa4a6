"""A host of a fleet: the worker, from `contend fleet join FILE` on, until it is told to leave or is alone for too long."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contend import __version__
from contend.errors import BadInput, HostFailed
from contend.fleet import background, folders
from contend.fleet.needs import INSTALL, ON_HOSTS, STATUS, need, settle_dask
from contend.names import check_name

AGAIN_S = 1.0
READY_S = 60.0
KEYS = ("fleet", "name", "address", "lost_s", "authority", "certificate", "key")


def about() -> dict[str, Any]:
    """Describe this host to a starting machine, before anything begins."""
    try:
        need(ON_HOSTS)
    except BadInput as error:
        missing = error.message
    else:
        missing = ""
    return {"contend": __version__, "python": sys.version.split()[0], "missing": missing, "install": INSTALL}


def take(text: str) -> Path:
    """Write what `contend fleet start` made for this host where its worker reads it. Raises BadInput."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or (absent := [key for key in KEYS if key not in document]):
            raise ValueError(f"no {absent[0]} in it" if isinstance(document, dict) else "not an object")
        if odd := [k for k in KEYS if not isinstance(document[k], int | float if k == "lost_s" else str)]:
            raise ValueError(f"its {odd[0]} is no {'number' if odd[0] == 'lost_s' else 'text'}")
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"this is not what a host joins a fleet with: {error}",
            hint="contend fleet start --by-hand NAME makes such a file",
        ) from error
    folder = folders.joined() / check_name("fleet", str(document["fleet"]))
    for name, key in ((folders.AUTHORITY, "authority"), (folders.OWN, "certificate"), (folders.KEY, "key")):
        folders.write(folder / name, document[key])
    membership = {key: document[key] for key in ("fleet", "name", "address", "lost_s")}
    folders.write_json(folder / "join.json", membership)
    return folder


def start(folder: Path) -> dict[str, Any]:
    """Start the worker in the background; returns its description once it is connected. Raises HostFailed with its
    message."""
    worker = folder / "worker.json"
    if folders.alive_in(worker) is not None:
        return folders.read_json(worker) | {"already": True}
    worker.unlink(missing_ok=True)
    background.start(
        "contend.fleet.join",
        folder,
        worker.name,
        READY_S,
        f"the worker did not reach {folders.read_json(folder / 'join.json')['address']}",
        "is that port open to this host? contend fleet start --address names another way there",
    )
    return folders.read_json(worker)


async def serve(folder: Path) -> None:
    """Be a worker until asked to leave, or until no scheduler was there for `lost_s`. Raises HostFailed where the first
    connection is refused."""
    from distributed import Worker

    from contend.fleet.host import Host

    settle_dask()
    document = folders.read_json(folder / "join.json")
    address, lost_s = str(document["address"]), float(document["lost_s"])
    security = folders.security(folder)
    host = Host(folder, str(document["name"]))
    watch = asyncio.create_task(host.watch(lost_s))
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None

    def leave() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: None)  # a second one would cancel the tear-down
        main.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave)
    alone_since = time.monotonic()
    joined = False
    try:
        while not host.leaving:
            try:
                async with Worker(
                    address,
                    name=host.host,
                    nthreads=1,
                    host=address_towards(address),
                    security=security,
                    local_directory=str(folder / "dask"),
                    memory_limit=0,
                    heartbeat_interval="5s",
                    death_timeout="8s",
                    dashboard=False,
                    dashboard_address=STATUS,
                    plugins=(host,),
                ) as worker:
                    folders.write_json(
                        folder / "worker.json", {**folders.process(), "address": worker.address}
                    )
                    joined = True
                    await worker.finished()
            except (OSError, TimeoutError, RuntimeError, ValueError) as error:
                if not joined:
                    raise HostFailed(
                        f"{address} did not take this worker: {error}",
                        hint="is the fleet still up, and was this file made for it? contend fleet status there",
                    ) from error
            else:
                alone_since = time.monotonic()
            if time.monotonic() - alone_since > lost_s:
                break
            await asyncio.sleep(AGAIN_S)
    except asyncio.CancelledError:
        pass  # SIGTERM: everything of ours goes, and so do we
    finally:
        watch.cancel()
        await host.end_all()
        if joined:  # else it says in its log why it never was a member
            await asyncio.to_thread(clear, folder.name)


def address_towards(address: str) -> str:
    """This host's own address on the way there. Nothing is sent: a datagram socket only chooses its route."""
    parts = urlsplit(address)
    family, *_, target = socket.getaddrinfo(parts.hostname, parts.port or 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


def quit_fleet(fleet: str, *, purge: bool) -> dict[str, Any]:
    """End this host's worker of a fleet and all that its parts left. Returns what was ended and what could not be."""
    folder = folders.joined() / check_name("fleet", fleet)
    try:
        recorded = folders.read_json(folder / "worker.json")
    except BadInput:
        recorded = {}
    pid = folders.alive(recorded)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 45
        while folders.alive(recorded) is not None:
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.05)
    failed, kept = clear(fleet, purge=purge)
    return {"ended": pid is not None, "failed": failed, "kept": kept}


def clear(fleet: str, *, purge: bool = False) -> tuple[list[str], list[str]]:
    """Remove what a fleet left on this host, its keys too. Returns what could not be, and the parts that stay: those
    whose rows the starting machine may not have, unless `purge`. A part of which something could not be removed stays as
    well, since its ledger says what."""
    from contend.fleet.host import remove_left

    failed, kept = [], []
    for part in sorted(folders.parts().iterdir()) if folders.parts().is_dir() else ():
        if not (part / "fleet").is_file() or (part / "fleet").read_text(encoding="utf-8") != fleet:
            continue
        if left := remove_left(part):
            failed += left
        elif purge or not any(part.glob("run/*/trials.ndjson")):
            shutil.rmtree(part, ignore_errors=True)
        else:
            kept.append(part.name)
    shutil.rmtree(folders.joined() / fleet, ignore_errors=True)
    return failed, kept


def main() -> int:
    folder = Path(sys.argv[1])
    try:
        asyncio.run(serve(folder))
    except HostFailed as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
