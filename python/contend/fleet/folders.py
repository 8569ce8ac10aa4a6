"""Where a fleet is kept: on the starting machine what it is made of, on a host what that joined with and its parts.

$XDG_STATE_HOME/contend/fleets/ID     starting machine: fleet.json, certificates, what hosts join with
$XDG_STATE_HOME/contend/joined/ID     a host: join.json, its certificate, worker.json, worker.log
$XDG_STATE_HOME/contend/parts/RUN     a host: its part of a run, until the coordinator has all of it
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend import files
from contend.errors import BadInput, HostFailed
from contend.platforms import procfs
from contend.store import state

if TYPE_CHECKING:
    from distributed.security import Security

AUTHORITY, OWN, KEY = "authority.pem", "own.pem", "own.key"


def fleets() -> Path:
    return state.folder().parent / "fleets"


def joined() -> Path:
    return state.folder().parent / "joined"


def parts() -> Path:
    return state.folder().parent / "parts"


def write(path: Path, text: str) -> None:
    """Replace a file that only its owner may read. Raises HostFailed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write(path, text.encode(), mode=files.PRIVATE)
    except OSError as error:
        raise HostFailed(f"cannot write {path}: {error.strerror}", hint="set XDG_STATE_HOME") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    write(path, json.dumps(value, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises BadInput."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {error}", hint="contend fleet start makes it") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path} holds no JSON object", hint="contend fleet start makes it")
    return value


def security(folder: Path) -> Security:
    """Dask's, from the three files of a folder: both ends of every connection show a certificate of the fleet."""
    from distributed.security import Security

    authority, own, key = (str(folder / name) for name in (AUTHORITY, OWN, KEY))
    return Security(  # type: ignore[no-untyped-call]
        require_encryption=True,
        tls_ca_file=authority,
        tls_scheduler_cert=own,
        tls_scheduler_key=key,
        tls_worker_cert=own,
        tls_worker_key=key,
        tls_client_cert=own,
        tls_client_key=key,
    )


def process() -> dict[str, Any]:
    """Marks that tell this process apart from a later one of the same number."""
    own = procfs.stat(os.getpid())
    assert own is not None
    return {"pid": own.pid, "start_ticks": own.start_ticks, "boot_id": procfs.boot_id()}


def alive_in(path: Path) -> int | None:
    """As `alive`, of the process that a file records; None where there is none, or it has just gone."""
    try:
        return alive(read_json(path))
    except BadInput:
        return None


def alive(recorded: Mapping[str, Any]) -> int | None:
    """The pid of a recorded process that still runs."""
    pid = recorded.get("pid")
    if pid is None or recorded.get("boot_id") != procfs.boot_id():
        return None
    running = procfs.stat(int(pid))
    if running is None or running.state in "ZX" or running.start_ticks != int(recorded["start_ticks"]):
        return None
    return int(pid)
