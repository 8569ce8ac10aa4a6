"""Pools on this host: what they are, whether they can be used as asked, and the files of a run on them.

A directory gets a directory of ours, contend-RUN, with one file for the measured fio and one for its neighbour. A block
device is only read, unless the scenario says `destroy: true` of it by name; then twice `size` from its beginning is written.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.errors import CannotHonour, HostFailed
from contend.platforms.base import Role
from contend.platforms.procfs import unescaped
from contend.probes.snapshot import device_of
from contend.store.ledger import Ledger
from contend.studies.base import Laid
from contend.studies.storage import cloud_pools
from contend.studies.storage.cloud_cells import AROUND_S
from contend.studies.storage.cloud_cells import check as check_cloud
from contend.studies.storage.model import Pool, Storage
from contend.studies.storage.points import (
    DEFAULT_POINTS,
    MOST_POINTS,
    SHARE_OF_BUDGET,
    least_points,
    sending_s,
    size_text,
)

FILES: tuple[Role, ...] = ("victim", "neighbour")
IN_MEMORY = ("tmpfs", "ramfs")
SPARE = 0.05  # of a file system, which is left free
MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    kind: str  # ext4, tmpfs …
    source: str
    options: str


def fitted(scenario: Storage, runs: Path) -> tuple[Storage, tuple[str, ...]]:
    """The scenario with what this host decides: absolute paths, whether past the page cache, the engine, how many points.

    runs: where the run's own directory will be. Raises CannotHonour for a pool that is not there. Makes nothing.
    """
    if scenario.cloud:
        scenario = cloud_pools.fitted(scenario)
        points = scenario.points or _points(scenario)
        return scenario.model_copy(update={"points": points}), ()
    notes: list[str] = []
    pools = []
    for pool in scenario.named:
        pool, more = _pool(pool, runs)
        pools.append(pool)
        notes += more
    changes: dict[str, Any] = {"pools": tuple(pools)}
    if scenario.async_engine == "auto":
        changes["async_engine"], more = _engine()
        notes += more
    scenario = scenario.model_copy(update=changes)
    if scenario.points is None:
        scenario = scenario.model_copy(update={"points": _points(scenario)})
    return scenario, tuple(notes)


def _pool(pool: Pool, runs: Path) -> tuple[Pool, list[str]]:
    where = Path(pool.path).expanduser().absolute() if pool.path else _existing(runs)
    if pool.path and where.is_block_device():
        warnings = (
            []
            if pool.destroy
            else [
                f"pool {pool.name}: writes, since {where} is a block device that is only read without `destroy: true`"
            ]
        )
        return pool.model_copy(update={"path": str(where), "direct": pool.direct is not False}), warnings
    if not where.is_dir():
        raise CannotHonour(
            f"pool {pool.name}: {where} is no directory and no block device",
            hint="pools=[/srv/fast,/srv/slow]",
        )
    if pool.destroy:
        raise CannotHonour(
            f"pool {pool.name}: {where} is a directory, of which nothing is destroyed",
            hint="leave `destroy` out",
        )
    memory = mount_of(where).kind in IN_MEMORY
    direct = pool.direct if pool.direct is not None else takes_direct(where)
    notes = []
    if memory:
        notes.append(
            f"pool {pool.name}: a disk, since its file system is in memory: its figures are the memory's"
        )
    elif not direct:
        why = "as asked" if pool.direct is False else "its file system has no O_DIRECT"
        notes.append(
            f"pool {pool.name}: O_DIRECT ({why}): requests go through the page cache, whose speed is in the figures"
        )
    path = str(where) if pool.path else ""
    return pool.model_copy(update={"path": path, "direct": direct, "memory": memory}), notes


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def takes_direct(directory: Path) -> bool:
    """True if a file there can be opened with O_DIRECT. Tried with a file without a name, which leaves nothing behind."""
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600))
        return True
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            return False
    name = directory / f"contend-{os.getpid()}.probe"  # NFS and others have no file without a name
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_DIRECT, 0o600))
        return True
    except OSError:
        return False
    finally:
        with suppress(OSError):
            name.unlink()


def mount_of(path: Path, mounts: Path = MOUNTS) -> Mount:
    """The mount that holds a path (proc(5), mountinfo); the last one where several share a mount point."""
    path = path.resolve()
    best, depth = Mount("unknown", "", ""), -1
    # A mount point may hold what Unicode has for line ends.
    for line in filter(None, mounts.read_text(encoding="utf-8", errors="surrogateescape").split("\n")):
        left, _, right = line.partition(" - ")
        at = Path(unescaped(left.split(" ")[4]))
        kind, source, *_ = (*right.split(" "), "", "")
        if path.is_relative_to(at) and len(at.parts) >= depth:
            best, depth = Mount(kind, source, left.split(" ")[5]), len(at.parts)
    return best


def _engine() -> tuple[str, list[str]]:
    """How fio keeps requests outstanding here: Linux's own asynchronous I/O, else io_uring."""
    try:
        engines = subprocess.run(
            ["fio", "--enghelp"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return "libaio", []  # without fio there is a better error later
    known = engines.split()
    if "libaio" in known:
        return "libaio", []
    refused = Path("/proc/sys/kernel/io_uring_disabled")
    if "io_uring" in known and not (refused.exists() and refused.read_text().strip() == "2"):
        return "io_uring", []
    raise CannotHonour("fio has neither libaio nor io_uring here", hint="--set engines=sync measures without")


def _points(scenario: Storage) -> int:
    """As many as a share of the budget has room for; what tells every coefficient apart at least."""
    least = least_points(scenario)
    if scenario.measure.budget is None:
        return max(least, DEFAULT_POINTS)
    seconds = scenario.measure.budget / 1e9 * SHARE_OF_BUDGET
    each = len(scenario.pools) * pair_s(scenario)
    return max(least, min(MOST_POINTS, int(seconds / each)))


def pair_s(scenario: Storage) -> float:
    """Expected seconds of one point on one pool, alone and beside."""
    around_s = 3 * AROUND_S if scenario.cloud else 0.8  # two trials and a neighbour
    return 2.5 * sending_s(scenario) + around_s + scenario.measure.washout / 1e9


def check(scenario: Storage, runs: Path | None = None) -> None:
    """Check that the pools can be used as requested. Raises CannotHonour; makes nothing. runs: where an own pool would
    be."""
    if scenario.cloud:
        check_cloud(scenario)
        return
    needed: dict[int, int] = {}
    for pool in scenario.named:
        if pool.device:
            _check_device(pool, 2 * scenario.size)
            continue
        if not pool.path and runs is None:
            continue
        where = Path(pool.path) if pool.path else _existing(runs or Path())
        if not where.is_dir():
            raise CannotHonour(
                f"pool {pool.name}: {where} is no directory", hint="pools=[/srv/fast,/srv/slow]"
            )
        if not os.access(where, os.W_OK | os.X_OK):
            raise CannotHonour(
                f"pool {pool.name}: {where} cannot be written to", hint="name a directory of yours"
            )
        space = os.statvfs(where)
        device = where.stat().st_dev
        needed[device] = needed.get(device, 0) + 2 * scenario.size
        free = space.f_bavail * space.f_frsize - int(SPARE * space.f_blocks * space.f_frsize)
        if needed[device] > free:
            raise CannotHonour(
                f"pool {pool.name}: {where} has {max(0, free) / 2**20:,.0f} MiB to give (5 % stay free), and"
                f" {needed[device] / 2**20:,.0f} are needed there",
                hint="smaller files with --set size=…, or another directory",
            )


def _check_device(pool: Pool, needed: int) -> None:
    path = Path(pool.path)
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise CannotHonour(
            f"pool {pool.name}: cannot read {path}: {error.strerror}", hint="as root"
        ) from error
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)
    if size < needed:
        raise CannotHonour(
            f"pool {pool.name}: {path} holds {size / 2**20:,.0f} MiB, and {needed / 2**20:,.0f} are needed",
            hint="a smaller --set size=…",
        )
    if pool.destroy:
        try:
            # The kernel refuses this for a device that is mounted, swapped on, or part of another: open(2), O_EXCL.
            os.close(os.open(path, os.O_RDWR | os.O_EXCL))
        except OSError as error:
            raise CannotHonour(
                f"pool {pool.name}: {path} is in use ({error.strerror}), and is not destroyed",
                hint="unmount it and what is on it, if its content may go",
            ) from error


def lay_out(
    scenario: Storage, run: Path, run_id: str, ledger: Ledger, later: Callable[[Callable[[], None]], object]
) -> Laid:
    """Make the directories of a run's files, each in the ledger before it is there. later: registers what removes them."""
    check(scenario, run)
    if scenario.cloud:  # made there, and nothing of them is a device of this host
        return Laid({}, {pool.name: None for pool in scenario.named})
    data: dict[tuple[Role, str], Path] = {}
    devices: dict[str, str | None] = {}
    for pool in scenario.named:
        if pool.device:
            path = Path(pool.path).resolve()
            ledger.event("pool-device", pool=pool.name, path=str(path), written=pool.destroy)
            devices[pool.name] = whole_device(path)
            data |= {(role, pool.name): path for role in FILES}
            continue
        base = Path(pool.path) if pool.path else run
        # One directory may be named as two pools (limits differ, say): their files are not the same.
        folder = base / f"contend-{run_id}-{pool.name}"
        ledger.intend("directory", str(folder), pool=pool.name, files=2 * scenario.size)
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise HostFailed(f"cannot make {folder}: {error.strerror}", hint="name another pool") from error
        later(lambda folder=folder: _remove(folder, ledger))  # type: ignore[misc]
        devices[pool.name] = device_of(folder)
        data |= {(role, pool.name): folder / role for role in FILES}
    return Laid(data, devices)


def _remove(folder: Path, ledger: Ledger) -> None:
    """Remove what is the run's there: the two files, and their directory. What cannot be removed stays in the ledger."""
    for role in FILES:
        with suppress(OSError):
            (folder / role).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return
    ledger.removed("directory", str(folder))


def whole_device(path: Path) -> str | None:
    """The name of a block device, of the whole one for a partition; None where the kernel has no counters of it."""
    about = path.stat()
    if not stat.S_ISBLK(about.st_mode):
        return None
    block = Path(f"/sys/dev/block/{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}")
    if not block.exists():
        return None
    block = block.resolve()
    return block.parent.name if (block / "partition").exists() else block.name


def preconditioned(work: Path) -> Iterator[dict[str, Any]]:
    """Costs of laying out each file: bytes written and seconds, as fio has it."""
    for report in sorted(work.glob("*/prepare.json")):
        try:
            text = report.read_text(encoding="utf-8")
            job = json.loads(text[text.index("{") :])["jobs"][0]
        except (OSError, ValueError, KeyError, IndexError):
            continue
        yield {
            "file": report.parent.name,
            "written_bytes": int(job["write"]["io_bytes"]),
            "seconds": round(int(job["write"]["runtime"]) / 1e3, 3),
        }


def facts(scenario: Storage, runs: Path) -> dict[str, Any]:
    """Facts of each pool for the run's record: file system, device, and the kernel's own facts of that."""
    if scenario.cloud:
        return cloud_pools.facts(scenario)
    by_pool: dict[str, Any] = {}
    for pool in scenario.named:
        where = Path(pool.path) if pool.path else _existing(runs)
        device = whole_device(where.resolve()) if pool.device else device_of(where)
        mount = Mount("block device", str(where), "") if pool.device else mount_of(where)
        by_pool[pool.name] = {
            "path": pool.path or "the run's own directory",
            "kind": mount.kind,
            "source": mount.source,
            "options": mount.options,
            "device": device or "none",
            "direct": bool(pool.direct) and not pool.memory,
            "memory": pool.memory,
            "written": not pool.read_only,
            **(_queue(device) if device else {}),
        }
    return by_pool


def _queue(device: str) -> dict[str, str]:
    """The device's own words on itself: Documentation/ABI/stable/sysfs-block of the kernel."""
    base = Path("/sys/block") / device
    names = {
        "rotational": "queue/rotational",
        "scheduler": "queue/scheduler",
        "requests": "queue/nr_requests",
        "write_cache": "queue/write_cache",
        "model": "device/model",
    }
    values = {}
    for name, at in names.items():
        with suppress(OSError):
            values[name] = (base / at).read_text(encoding="utf-8", errors="replace").strip()
    return values


def shared(pools: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Devices that several pools share: a comparison of these pools compares no two devices."""
    under: dict[str, list[str]] = {}
    for name, of in pools.items():
        if of["device"] != "none" and "cloud" not in of:
            under.setdefault(str(of["device"]), []).append(name)
    return [(device, tuple(names)) for device, names in under.items() if len(names) > 1]


def size_words(scenario: Storage) -> str:
    """Words for what a run writes before it measures anything."""
    written = sum(2 * scenario.size for pool in scenario.named if not pool.read_only)
    what = "volumes" if scenario.cloud else "files"
    return (
        f"{size_text(written)} in {2 * sum(not p.read_only for p in scenario.named)} {what}"
        if written
        else "nothing"
    )
