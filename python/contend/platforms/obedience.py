"""Trust in run directories: decides whether contend acts on what a run's ledger names, or only reads it.

A ledger names what is to be ended and removed with this user's rights, so it is obeyed only if nobody else can have
written it:

1. The run directory is this user's own and writable by nobody else; so is the ledger, which is a regular file with one
   name. Every directory above is root's or this user's, and others cannot exchange what is in it. (Where they can, the
   ledger was kept in the state directory from the start.)
2. This user's state directory points at this very directory; or it is gone, and a claim that only this user can have
   written names it.

All else is data: it can be reported, and what its ledger names is listed and left. So a run that was moved, copied,
unpacked or received is never acted upon. docs/concepts/cleaning.md says the same to users.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import files
from contend.errors import BadInput
from contend.store import claims, ownership, state
from contend.store.ledger import parse, parse_without_trials, standing


@dataclass(frozen=True, slots=True)
class Obeyed:
    """A run of this user's. `ledger` is where its rows are written; `rows`, without those of trials, was read from the file
    that was checked."""

    directory: Path
    run_id: str
    ledger: Path
    rows: tuple[dict[str, Any], ...] = ()
    damaged: tuple[int, ...] = ()  # numbers of lines that are no rows

    def left(self) -> list[dict[str, Any]]:
        """List rows that were announced and never recorded as removed, newest first."""
        return standing(self.rows)


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A run directory that is data. `reason` completes "only read: …"."""

    directory: Path
    reason: str
    hint: str
    rows: tuple[dict[str, Any], ...] = ()

    def left(self) -> list[dict[str, Any]]:
        """List rows that were announced and never recorded as removed: to be listed, not touched."""
        return standing(self.rows)


Standing = Obeyed | ReadOnly


def judge(directory: Path) -> Standing:
    """Read the ledger of a run directory, and say whether it is obeyed. A missing one has no rows."""
    try:
        resolved = directory.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        return ReadOnly(directory, f"it cannot be opened: {error}", "is the path right?")
    owned = _known(resolved)
    if owned is None and (uid := resolved.stat().st_uid) != os.geteuid():
        return _data(resolved, f"it belongs to {ownership.owner(uid)}", _by_hand(resolved))
    if owned is None:
        return _data(
            resolved,
            "your state directory does not know this run (it has ended, or was moved, copied or made by somebody else)",
            "contend destroy --all removes what still carries the name of a run of yours",
        )
    run_id, ledger = owned
    try:
        with ownership.own_directory(ledger.parent) as folder:
            return _read(resolved, run_id, ledger, folder)
    except ownership.Changeable as found:
        return _data(resolved, f"others could have changed what it says: {found}", _by_hand(ledger.parent))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return _data(resolved, f"its ledger cannot be read: {why}", "are you the user who made it?")


def again(standing: Obeyed) -> Obeyed:
    """Read the ledger again, after the run's processes were ended. The same rows where it cannot be read now."""
    judged = judge(standing.directory)
    return judged if isinstance(judged, Obeyed) else standing


def _known(directory: Path) -> tuple[str, Path] | None:
    """(run id, ledger) of a run that this user's state directory points at, or that a claim of this user's names."""
    if not ownership.why_changeable(state.folder()):
        for pointer in state.pointers():
            if pointer.directory == directory:
                return pointer.run_id, pointer.ledger
    claim = claims.own(directory)
    return None if claim is None else (claim.run_id, claim.ledger)


def _read(directory: Path, run_id: str, ledger: Path, folder: int) -> Obeyed:
    try:
        fd = ownership.open_own(ledger.name, folder, ledger.parent)
    except FileNotFoundError:
        return Obeyed(directory, run_id, ledger)
    with os.fdopen(fd, "rb") as file:
        rows, damaged = parse_without_trials(file, state.MOST_LEDGER_BYTES)
    return Obeyed(directory, run_id, ledger, tuple(rows), tuple(damaged))


def _data(directory: Path, reason: str, hint: str) -> ReadOnly:
    try:
        rows, _ = parse(
            files.read_inside(directory / state.LEDGER, most=state.MOST_LEDGER_BYTES), trials=False
        )
    except (OSError, BadInput):
        rows = []
    return ReadOnly(directory, reason, hint, tuple(rows))


def _by_hand(directory: Path) -> str:
    try:
        uid = directory.stat().st_uid
    except OSError:
        uid = os.geteuid()
    if uid != os.geteuid():
        return f"let its owner clean up: sudo -u '#{uid}' contend destroy {shlex.quote(str(directory))}"
    return "look at what it names; once only you can write there (chmod go-w), contend destroy again"
