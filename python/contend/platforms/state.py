"""Where this user's runs are: one small file per run that may have left something, found from anywhere.

Written before anything else of a run and removed when its last thing is gone, so `contend destroy --all`
finds what a crash left, wherever the run directory lies: $XDG_STATE_HOME/contend/runs. Contends of other state
directories are told of it by a claim (`contend.platforms.claims`).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from contend.errors import HostFailed
from contend.platforms import claims, names


@dataclass(frozen=True, slots=True)
class Pointer:
    run_id: str
    directory: Path

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.ndjson"


def folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path there is to be ignored.
    root = Path(base) if base.startswith("/") else Path.home() / ".local/state"
    return root / names.PREFIX / "runs"


def cache() -> Path:
    """What can be had again and is kept between runs: kernels, images of guests, what was found out about KVM."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / names.PREFIX


def register(run_id: str, directory: Path) -> Path:
    """Write the pointer of a run, on the disk when this returns. Raises HostFailed."""
    path = folder() / names.check_name("run id", run_id)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"schema_version": 1, "run": run_id, "directory": str(directory.resolve())}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise HostFailed(f"cannot write {path}: {error.strerror}", hint="set XDG_STATE_HOME") from error
    claims.make(run_id, directory.resolve(), path.resolve())
    return path


def unregister(run_id: str) -> None:
    """Forget a run that has left nothing. Idempotent."""
    path = folder() / names.check_name("run id", run_id)
    claims.drop(run_id, path.resolve())
    path.unlink(missing_ok=True)


def pointers() -> list[Pointer]:
    """Every run that may have left something, by name. A damaged pointer is an error: it may hide a run."""
    found = []
    if not folder().is_dir():
        return []
    for path in sorted(folder().iterdir()):
        if path.name.startswith("."):  # a pointer that was being written
            continue
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            found.append(Pointer(str(row["run"]), Path(row["directory"])))
        except (ValueError, KeyError, TypeError) as error:
            raise HostFailed(f"{path} is damaged: {error}", hint=f"look at it, then rm {path}") from error
    return found
