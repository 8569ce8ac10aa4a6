"""Traces of a run's trials: RUN/traces/TRIAL/*.ctrace, where TRIAL is the trial's number in six digits.

The measured party's commands get the environment of `contend trace`, and nothing else: no process more, so that what
is measured beside it stays what it was. The host is in the run's own series.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from contend.studies.plan import Trial
from contend.workloads.spec import Traced, Workload

_OURS = ("PYTHONPATH", "CONTEND_TRACE_PACKAGE", "CONTEND_TRACE")


class TrialTraces:
    """The traces of one run. `asked`: the scenario's `trace`; None records nothing."""

    def __init__(self, asked: Traced | None, run: Path) -> None:
        self._asked, self._run = asked, run

    def begin(self, trial: Trial) -> None:
        """An empty place for the trial's files: one that failed may have been tried before."""
        if self._asked is not None:
            shutil.rmtree(self._place(trial), ignore_errors=True)
            # Arguments and labels of functions may hold secrets: for its owner only.
            self._place(trial).mkdir(mode=0o700, parents=True)

    def environment(self, trial: Trial, workload: Workload) -> Mapping[str, str]:
        """Variables for a command's environment so that its Python processes are recorded."""
        if self._asked is None:
            return {}
        from contend.trace.launch import TraceOptions, environment

        wanted = self._asked if self._asked.include or self._asked.exclude else workload.trace
        asked = TraceOptions(self._place(trial), wanted.include, wanted.exclude)
        found = environment(asked, {**os.environ, **workload.env})
        return {name: found[name] for name in _OURS}

    def end(self, trial: Trial) -> dict[str, str]:
        """The row's entry on the trace: where it is. The pilot is thrown away, and its traces with it."""
        if self._asked is None:
            return {}
        place = self._place(trial)
        if trial.phase == "pilot" or not any(place.iterdir()):
            shutil.rmtree(place, ignore_errors=True)
            return {}
        return {"trace": str(place.relative_to(self._run))}

    def _place(self, trial: Trial) -> Path:
        return self._run / "traces" / f"{trial.index:06d}"
