"""`contend destroy`: removes what runs left behind, by their ledgers, then by name; lists what belongs to others.

Nothing that is damaged, or laid in the way by somebody else, stops the cleaning of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from contend.errors import ContendError
from contend.platforms import obedience
from contend.platforms.removers import Removed, Removers
from contend.platforms.resources import remove_obeyed
from contend.platforms.strays import Anothers, LeftAlone, live_runs, remove_stray, survey
from contend.store import claims, state
from contend.store.claims import Claim
from contend.store.ledger import is_locked
from contend.text.shape import Shape, Through


@dataclass(frozen=True, slots=True)
class Problem(Shape):
    """Something that contend could not clean up and that you have to look at; the rest was cleaned all the same."""

    message: str
    hint: str


def _paths(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]


@dataclass(frozen=True, slots=True)
class Report(Shape):
    """A cleaning and its results. `live` are the directories of runs that were left alone, `others` what is another state
    directory's, `left` what was listed and left, each with the reason."""

    removed: tuple[Removed, ...] = ()
    failed: tuple[Removed, ...] = ()
    live: Annotated[tuple[Path, ...], Through(_paths)] = ()
    others: tuple[Anothers, ...] = ()
    left: tuple[LeftAlone, ...] = ()
    problems: tuple[Problem, ...] = ()


def destroy_run(directory: Path, removers: Removers, *, force: bool = False) -> Report:
    """Remove what the run in `directory` left: by its ledger, then by its name, wherever else it is found. Of a run that is
    only read (`obedience`), what its ledger names is listed and left.

    Raises HostFailed for a run that is alive, unless forced.
    """
    standing = obedience.judge(directory)
    if isinstance(standing, obedience.ReadOnly):
        return _read_only(standing)
    done = remove_obeyed(standing, removers, force=force)
    strays, left, problems = survey_of(standing.run_id)
    done += strays
    report = _report(done, left=left, problems=problems)
    if not report.failed and not report.problems and not is_locked(standing.ledger):
        state.unregister(standing.run_id)
    return report


def destroy_all(removers: Removers, *, force: bool = False) -> Report:
    """Remove what is left of runs that this state directory knows, or none does, and what carries contend's name and belongs
    to no run. What another state directory knows is left alone and listed."""
    done: list[Removed] = []
    live: list[Path] = []
    left: list[LeftAlone] = []
    pointers, damaged = state.survey()
    problems = [
        Problem(f"{one.path} is damaged: {one.why}", f"it may hide a run: look at it, then rm {one.path}")
        for one in damaged
    ]
    known, skipped = claims.survey()
    left += [LeftAlone("claim", str(one.path), f"of {one.owner}: {one.why}") for one in skipped]
    for pointer in pointers:
        if is_locked(pointer.ledger) and not force:
            live.append(pointer.directory)
        elif pointer.ledger.exists():
            report = _tried(pointer.directory, removers, force)
            done += [*report.removed, *report.failed]
            left += report.left
            problems += report.problems
    for claim in _orphans(known):
        if is_locked(claim.ledger):
            live.append(claim.directory)
        elif claim.has_ledger():
            report = _tried(claim.directory, removers, False)
            whose = f"of {claim.directory}, which no state directory knows"
            done += [replace(item, whose=whose) for item in (*report.removed, *report.failed)]
            left += report.left
            problems += report.problems
    surveyed = survey()
    problems += [Problem(message, hint) for message, hint in surveyed.problems]
    done += [remove_stray(stray) for stray in surveyed.strays]
    left += surveyed.left
    report = _report(done, tuple(live), surveyed.others, tuple(left), tuple(problems))
    if not report.failed and not report.problems:
        _forget()
    return report


def survey_of(run_id: str) -> tuple[list[Removed], tuple[LeftAlone, ...], tuple[Problem, ...]]:
    """Remove what carries the name of one run and was not in its ledger; list what only says that it is the run's."""
    surveyed = survey(run_id)
    done = [remove_stray(stray) for stray in surveyed.strays]
    return done, surveyed.left, tuple(Problem(message, hint) for message, hint in surveyed.problems)


def _tried(directory: Path, removers: Removers, force: bool) -> Report:
    try:
        return destroy_run(directory, removers, force=force)
    except (ContendError, OSError) as error:
        hint = error.hint if isinstance(error, ContendError) else ""
        return Report(problems=(Problem(f"{directory} was not cleaned: {error}", hint),))


def _read_only(standing: obedience.ReadOnly) -> Report:
    left = tuple(
        LeftAlone(str(row.get("kind")), str(row.get("name")), f"named by the ledger of {standing.directory}")
        for row in standing.left()
    )
    if not left:
        return Report()
    problem = Problem(f"{standing.directory} is only read, not obeyed: {standing.reason}", standing.hint)
    return Report(left=left, problems=(problem,))


def _orphans(known: list[Claim]) -> list[Claim]:
    """Runs whose state directory is gone. Of this user: a ledger says what to remove, and is not to be another's word."""
    return [claim for claim in known if claim.own and not claim.stands()]


def _forget() -> None:
    """Runs of which nothing is left to remove: their directory was deleted, what they left was a stray, and is gone."""
    live = live_runs()  # the ledger of one in another mount namespace is not here either
    for pointer in state.pointers():
        if not pointer.ledger.exists() and pointer.run_id not in live:
            state.unregister(pointer.run_id)
    for claim in _orphans(claims.every()):
        if claim.run_id in live:
            continue
        if not is_locked(claim.ledger) and not obedience.judge(claim.directory).left():
            with suppress(OSError):
                claim.path.unlink()


def _report(
    done: list[Removed],
    live: tuple[Path, ...] = (),
    others: tuple[Anothers, ...] = (),
    left: tuple[LeftAlone, ...] = (),
    problems: tuple[Problem, ...] = (),
) -> Report:
    return Report(
        removed=tuple(item for item in done if item.was_there and not item.why),
        failed=tuple(item for item in done if item.why),
        live=live,
        others=others,
        left=left,
        problems=problems,
    )
