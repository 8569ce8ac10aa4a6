"""A host's part of a fleet's run: the orchestrator in a process of its own, in a directory of its own.

Started by the worker (`contend.fleet.host`) as `python -m contend.fleet.part DIRECTORY`. What it says are lines of JSON on
stdout; where blocks start together it waits before each for a line on stdin. It ends with its parent: SIGTERM is an
interrupt, and the orchestrator tears down by its ledger.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from contend.document import CellResult
from contend.errors import ContendError
from contend.report.progress import PREPARING, PlanSummary
from contend.store.directory import PLAN_FILE, RunDirectory

_PR_SET_PDEATHSIG = 1  # prctl(2)
MOST_AHEAD_S = 10.0


def directory_of(folder: Path) -> Path | None:
    """The run directory in a part's folder; None before there is one that can be gone on with."""
    return next((path.parent for path in sorted((folder / "run").glob(f"*/{PLAN_FILE}"))), None)


class Reporter:
    """Progress of a part, written for the coordinator as lines of JSON."""

    wants_comparisons = False

    def __init__(self, out: TextIO, orders: TextIO | None) -> None:
        self._out, self._orders = out, orders
        self._about = True  # what a run first says of itself, which the coordinator knows

    def say(self, **what: Any) -> None:
        try:
            self._out.write(json.dumps(what) + "\n")
            self._out.flush()
        except (OSError, ValueError):  # nobody listens any more: SIGTERM is on its way
            self._orders = None

    def started(self, plan: PlanSummary) -> None: ...
    def replanned(self, plan: PlanSummary) -> None: ...
    def trial(self, cell: str, label: str) -> None: ...
    def result(self, cell: str, value: str) -> None: ...
    def preparing(self, number: int, of: int, what: str, left_s: float) -> None: ...
    def finished(self) -> None: ...
    def comparisons(self, cells: Sequence[CellResult]) -> None: ...

    def note(self, text: str) -> None:
        if not self._about:
            self.say(note=text)
        self._about = self._about and text != PREPARING

    def block(self, number: int) -> None:
        """Wait until the coordinator names the moment, of this host's clock. Its end is a moment long past."""
        if self._orders is None or not number:
            return
        self.say(ready=number)
        while line := self._orders.readline():
            order = json.loads(line)
            if int(order["block"]) >= number:
                ahead_s = (int(order["at_ns"]) - time.monotonic_ns()) / 1e9
                # A moment that is far off is of a clock that this host no longer has.
                time.sleep(max(0.0, ahead_s) if ahead_s < MOST_AHEAD_S else 0.0)
                self.say(began=number, late_ns=time.monotonic_ns() - int(order["at_ns"]))
                return


def check(folder: Path) -> list[str]:
    """List what is in the way of the part on this host: message and hint; nothing when it can begin."""
    from contend.engine import checks
    from contend.studies.scenarios import load

    try:
        checks.check(load(str(folder / "scenario.yaml")))
    except ContendError as error:
        return [error.message, error.hint]
    return []


def run(folder: Path, reporter: Reporter) -> None:
    """Begin the part, or go on with it. Raises ContendError."""
    from contend.engine import run as orchestrator
    from contend.studies.scenarios import load

    directory_path = directory_of(folder)
    if directory_path is not None:  # whose earlier orchestrator has ended: contend.fleet.host sees to that
        with RunDirectory.open(directory_path) as directory:
            outcome = orchestrator.resume(directory, progress=reporter)
    else:
        scenario = load(str(folder / "scenario.yaml"))
        outcome = orchestrator.execute(
            scenario,
            name=folder.name[:40],
            command=(folder / "command").read_text(encoding="utf-8"),
            runs=folder / "run",
            progress=reporter,
        )
    if outcome.guard:  # no interrupt to go on after: the load was too much for who else is there
        reporter.say(
            failed_with=f"stopped by the guard: {outcome.guard}", hint="lighten the neighbours", code=3
        )
        return
    reporter.say(ended=outcome.stopped, failed=outcome.failed, interrupted=outcome.interrupted)


def main() -> int:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it went before the kernel was asked
        return 1
    folder = Path(sys.argv[1])
    if "--check" in sys.argv:
        print(json.dumps(check(folder)))
        return 0
    reporter = Reporter(sys.stdout, sys.stdin if "--together" in sys.argv else None)
    try:
        run(folder, reporter)
    except ContendError as error:
        notes = list(getattr(error, "__notes__", []))
        reporter.say(failed_with=error.message, hint=error.hint, code=error.exit_code, notes=notes)
        return error.exit_code
    except KeyboardInterrupt:
        reporter.say(ended="interrupted", failed=0, interrupted=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
