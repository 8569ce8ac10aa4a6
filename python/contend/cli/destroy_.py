"""`contend destroy`: nothing of a run is left on the host. Run directories are data and stay."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import click

from contend.cli.common import print_answer, shown
from contend.errors import BadInput, ContendError
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.platforms.destroy import Report
    from contend.platforms.removers import Removed
    from contend.platforms.strays import Anothers

LINES_OF_A_KIND = 10  # more of one kind in turn are told in one line; --json names each


@click.command("destroy", short_help="Remove what runs left behind.")
@click.argument("run", required=False)
@click.option(
    "--all", "every", is_flag=True, help="Every run of this user that is not running now, wherever it is."
)
@click.option("--force", is_flag=True, help="Also runs that are still going: they will fail.")
@click.option("--json", "as_json", is_flag=True, help="What was removed, as one JSON document.")
def command(run: str | None, every: bool, force: bool, as_json: bool) -> int:
    """Remove the processes, cgroups, namespaces, containers, work files and servers on clouds that RUN (or --all) left
    behind.

    A run that ended by itself, or by Ctrl-C, has left nothing; this is for crashes and kill -9. What runs left that another
    state directory (XDG_STATE_HOME, or another user's) still knows, --all leaves alone and says how to remove it. What a run
    names that was moved, copied or made by somebody else is listed and left: exit 1.
    """
    from contend.fleet.removal import EVERYTHING
    from contend.platforms.destroy import destroy_all, destroy_run
    from contend.store.directory import RunDirectory

    if bool(run) == every:
        raise BadInput(
            "name one run, or --all", hint="contend destroy runs/NAME-TIME, or: contend destroy --all"
        )
    report = (
        destroy_all(EVERYTHING, force=force)
        if every
        else destroy_run(RunDirectory.open(str(run), samples=True).path, EVERYTHING, force=force)
    )
    if as_json:
        print_answer(headline(report), report, code=1 if report.problems or report.failed else 0)
    else:
        lines = [
            *removed_lines(report.removed),
            *(f"still running, left alone: {shown(path)}" for path in report.live),
            *(_left_alone(anothers) for anothers in report.others),
            *(f"left alone: {item.kind} {item.name}: {item.why}" for item in report.left),
        ]
        for line in lines:
            print(printable(line))
        if not lines and not report.problems and not report.failed:
            print("nothing was left behind")
    errors = [ContendError(one.message, hint=one.hint) for one in report.problems]
    errors += [
        ContendError(
            f"could not remove {one.kind} {one.name}: {one.why}", hint="are you the user who made it?"
        )
        for one in report.failed
    ]
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(
                other.message
                + (f"\n    hint: {other.hint}" if isinstance(other.hint, str) and other.hint else "")
            )
        raise _printable(first)
    return 0


def headline(report: Report) -> str:
    """Sum up what was removed, what could not be, and what was left alone."""
    alone = len(report.live) + len(report.others) + len(report.left)
    parts = [
        *(
            [f"removed {len(report.removed)} thing{'s' * (len(report.removed) != 1)}"]
            if report.removed
            else []
        ),
        *([f"could not remove {len(report.failed)}"] if report.failed else []),
        *([f"left {alone} alone"] if alone else []),
        *([f"{len(report.problems)} problem{'s' * (len(report.problems) != 1)}"] if report.problems else []),
    ]
    return ", ".join(parts) or "nothing was left behind"


def _printable(error: ContendError) -> ContendError:
    """An error with the names and reasons of strangers safe to print."""
    shown_ = ContendError(printable(error.message), hint=printable(error.hint))
    for note in getattr(error, "__notes__", ()):
        shown_.add_note(printable(note, lines=True))
    return shown_


def removed_lines(items: Iterable[Removed]) -> Iterator[str]:
    """Yield a line for each removed thing, or for the many of a kind that a run on a cloud had.

    >>> from contend.platforms.removers import Removed
    >>> ports = [Removed("openstack-port", f"p-{i}", was_there=True) for i in range(300)]
    >>> list(removed_lines([Removed("cgroup", "a", was_there=True), *ports]))
    ['removed cgroup a', 'removed openstack-port p-0, … p-299 (300 of them)']
    """
    for (kind, whose), group in groupby(items, lambda item: (item.kind, item.whose)):
        names = [item.name for item in group]
        shown_names = (
            names if len(names) <= LINES_OF_A_KIND else [f"{names[0]}, … {names[-1]} ({len(names)} of them)"]
        )
        for name in shown_names:
            yield f"removed {kind} {name}" + (f" ({whose})" if whose else "")


def _left_alone(anothers: Anothers) -> str:
    """A line on something of others: what it is, whose, and how it is removed.

    By the run's directory where there still is one: that works from any state directory.
    """
    from contend.store.ownership import owner

    claim = anothers.claim
    counted = Counter(kind for kind, _ in anothers.things)
    things = ", ".join(f"{kind} ({count})" for kind, count in counted.items())
    way = (
        f"contend destroy {shlex.quote(str(claim.directory))}"
        if claim.has_ledger()
        else f"XDG_STATE_HOME={shlex.quote(str(claim.state))} contend destroy --all"
    )
    whose = "" if claim.uid == os.geteuid() else f" ({owner(claim.uid)})"
    if whose:  # only its owner's contend obeys it
        way = f"sudo -u '#{claim.uid}' {way}"
    return f"left alone, known to {claim.state}{whose}: {things} of run {claim.run_id}; to remove: {way}"
