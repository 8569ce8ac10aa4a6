"""`contend destroy`: what runs left behind goes, by their ledgers, then by their names; and what is another's is told."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from contend.ledger import SCHEMA_VERSION, is_locked, leftovers, read_rows
from contend.platforms import claims, state
from contend.platforms.claims import Claim
from contend.platforms.resources import Removed, remove_leftovers
from contend.platforms.strays import Anothers, find_strays, remove_stray, survey


@dataclass(frozen=True, slots=True)
class Report:
    """What was done. `live` are the directories of runs that were left alone, `others` what is another state
    directory's."""

    removed: tuple[Removed, ...] = ()
    failed: tuple[Removed, ...] = ()
    live: tuple[Path, ...] = ()
    others: tuple[Anothers, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "schema_version": SCHEMA_VERSION,
            "removed": [item.to_json() for item in self.removed],
            "failed": [item.to_json() for item in self.failed],
            "live": [str(path) for path in self.live],
            "others": [item.to_json() for item in self.others],
        }


def destroy_run(directory: Path, *, force: bool = False) -> Report:
    """Remove what the run in `directory` left: by its ledger, then by its name, wherever else it is found.

    Raises HostFailed for a run that is alive, unless forced.
    """
    ledger = directory / "ledger.ndjson"
    done = remove_leftovers(ledger, force=force)
    runs = {str(row["run"]) for row in read_rows(ledger) if row.get("run")}
    for run_id in sorted(runs):
        done += [remove_stray(stray) for stray in find_strays(run_id)]
    report = _report(done)
    if not report.failed and not is_locked(ledger):
        for run_id in runs:
            state.unregister(run_id)
    return report


def destroy_all(*, force: bool = False) -> Report:
    """Remove what any run left that this state directory knows, or none any more; and what carries contend's name and
    belongs to no run. What another state directory knows is left alone and told."""
    done: list[Removed] = []
    live: list[Path] = []
    for pointer in state.pointers():
        if is_locked(pointer.ledger) and not force:
            live.append(pointer.directory)
        elif pointer.ledger.exists():
            report = destroy_run(pointer.directory, force=force)
            done += [*report.removed, *report.failed]
    for claim in _orphans():
        if is_locked(claim.ledger):
            live.append(claim.directory)
        elif claim.has_ledger():
            report = destroy_run(claim.directory)
            whose = f"of {claim.directory}, which no state directory knows"
            done += [replace(item, whose=whose) for item in (*report.removed, *report.failed)]
    strays, others = survey()
    done += [remove_stray(stray) for stray in strays]
    report = _report(done, tuple(live), tuple(others))
    if not report.failed:
        _forget()
    return report


def _orphans() -> list[Claim]:
    """Runs whose state directory is gone. Of this user: a ledger says what to remove, and is not to be another's word."""
    return [claim for claim in claims.every() if claim.ours and not claim.stands()]


def _forget() -> None:
    """Runs of which nothing is left to remove: their directory was deleted, what they left was a stray, and is gone."""
    for pointer in state.pointers():
        if not pointer.ledger.exists():
            state.unregister(pointer.run_id)
    for claim in _orphans():
        if not is_locked(claim.ledger) and not leftovers(claim.ledger):
            with suppress(OSError):
                claim.path.unlink()


def _report(done: list[Removed], live: tuple[Path, ...] = (), others: tuple[Anothers, ...] = ()) -> Report:
    return Report(
        removed=tuple(item for item in done if item.was_there and not item.why),
        failed=tuple(item for item in done if item.why),
        live=live,
        others=others,
    )
