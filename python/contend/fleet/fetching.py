"""A host's files, copied to hosts/NAME of the run: each whole in its place, or not there."""

from __future__ import annotations

from pathlib import Path

from contend.errors import HostFailed
from contend.files import PRIVATE, replacing
from contend.fleet import host as there
from contend.fleet.asking import Asking
from contend.store.directory import RunDirectory
from contend.store.hosts import folder_of

SKIPPED = ("work/", "report.html", "trials.ndjson", "findings.json")


class NotKept(Exception):
    """Rows of a host that cannot be written here: no host's fault, and no run can go on. Its cause is a HostFailed."""


async def fetch(asking: Asking, run: RunDirectory, host: str, only: tuple[str, ...] = ()) -> None:
    """Copy the files of a host's part, or `only` these. Raises Away, HostFailed, and NotKept where there is no room."""
    folder = folder_of(run, host)
    for name, size in await asking.ask(host, there.files, run.id):
        if (only and name not in only) or name.startswith(SKIPPED):
            continue
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise HostFailed(
                f"it names a file outside its run directory: {name!r}", hint="is it one of yours?"
            )
        await _copy(asking, run.id, host, name, size, target)


async def _copy(asking: Asking, run: str, host: str, name: str, size: int, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, mode=PRIVATE) as file:
            while file.tell() < size:
                data = await asking.ask(host, there.chunk, run, name, file.tell())
                if not data:
                    break
                file.write(data)
    except OSError as error:
        failure = HostFailed(
            f"cannot write {target}: {error.strerror}", hint="free some space, then --resume"
        )
        raise NotKept from failure
