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

_VARIABLES = ("PYTHONPATH", "CONTEND_TRACE_PACKAGE", "CONTEND_TRACE")


class TrialTraces:
    """The traces of one run. `traced`: the scenario's `trace`; None records nothing."""

    def __init__(self, traced: Traced | None, run: Path) -> None:
        self._traced, self._run = traced, run

    def begin(self, trial: Trial) -> None:
        """Make an empty directory for the trial's files: one that failed may have been tried before."""
        if self._traced is not None:
            shutil.rmtree(self._directory(trial), ignore_errors=True)
            # Arguments and labels of functions may hold secrets: for its owner only.
            self._directory(trial).mkdir(mode=0o700, parents=True)

    def environment(self, trial: Trial, workload: Workload) -> Mapping[str, str]:
        """Variables for a command's environment so that its Python processes are recorded."""
        if self._traced is None:
            return {}
        from contend.trace.launch import TraceOptions, environment

        wanted = self._traced if self._traced.include or self._traced.exclude else workload.trace
        options = TraceOptions(self._directory(trial), wanted.include, wanted.exclude)
        variables = environment(options, {**os.environ, **workload.env})
        return {name: variables[name] for name in _VARIABLES}

    def end(self, trial: Trial) -> dict[str, str]:
        """The row's entry on the trace: where it is. The pilot is thrown away, and its traces with it."""
        if self._traced is None:
            return {}
        directory = self._directory(trial)
        if trial.phase == "pilot" or not any(directory.iterdir()):
            shutil.rmtree(directory, ignore_errors=True)
            return {}
        return {"trace": str(directory.relative_to(self._run))}

    def _directory(self, trial: Trial) -> Path:
        return self._run / "traces" / f"{trial.index:06d}"
