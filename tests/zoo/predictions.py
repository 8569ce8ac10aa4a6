"""Answers of contend's command line about a program: traces of it, a prediction of an edit, a hunt."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import truth
from zoo.truth import Storm

CONTEND = (sys.executable, "-m", "contend")
_TIMEOUT_S = 180.0
_UNDECIDED = 5


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer of `contend whatif` for one edit.

    trusted: it is meant to be believed. median, makespan: predicted over recorded, None where there is no number. reason:
    why it is refused, or what the error was.
    """

    trusted: bool
    median: float | None
    makespan: float | None
    reason: str = ""
    regime: str = ""
    level_error: float | None = None

    @property
    def asks_for_storms(self) -> bool:
        """True if it is refused for want of storms, and says so."""
        return not self.trusted and "more storms" in self.reason


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of `contend hunt`. share: of the jobs' time, 0 to 1."""

    kind: str
    resource: str
    edit: str
    share: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Hunt:
    """The answer of `contend hunt`. time: ns of all jobs by the name of what they went to; whole: in sum."""

    findings: tuple[Finding, ...]
    time: dict[str, int]
    whole: int
    error: str = ""


class ContendFailed(Exception):
    """contend could not trace the program, or did not end."""


def _run(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*CONTEND, *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, cwd=folder)
    except subprocess.TimeoutExpired as late:
        raise ContendFailed(f"contend {' '.join(arguments)}: not done in {_TIMEOUT_S:.0f} s") from late


def trace(folder: Path, count: int, first: int = 1) -> tuple[list[Path], list[Storm]]:
    """Record so many storms of `program.py` in that folder, a process each; the traces, from that number on, and what the
    program measured meanwhile. Raises ContendFailed.
    """
    made, storms = [], []
    for number in range(first, first + count):
        trace_folder = folder / f"storm-{number}"
        command = ["trace", "--cpu-times", "-o", trace_folder.name, "--", sys.executable, "program.py"]
        ended = _run(command, folder)
        if ended.returncode:
            raise ContendFailed(
                f"contend {' '.join(command)}: exit code {ended.returncode}: {ended.stderr[-600:]}"
            )
        made.append(trace_folder)
        storms += truth.read(ended.stdout)
    return made, storms


def predict(folder: Path, traces: Sequence[Path], options: Sequence[str], job: str) -> Prediction:
    """Predict one edit. Raises ContendFailed."""
    command = ["whatif", *(trace.name for trace in traces), *options, *_job(job), "--json"]
    ended = _run(command, folder)
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        return Prediction(False, None, None, ended.stderr.strip()[-400:] or "(no output)")
    return prediction(answer, ended.returncode)


def prediction(answer: dict[str, Any], code: int) -> Prediction:
    """The prediction in a document of `contend whatif --json`, which ended with that code."""
    data = answer["data"]
    gate = data["gate"]
    reason = gate["reason"] or ("" if code != _UNDECIDED else answer["headline"])
    ratios = [
        data["predicted"][name]["value"] / data["baseline"][name] if data["baseline"][name] else None
        for name in ("median_ns", "makespan_ns")
    ]
    return Prediction(
        code == 0, ratios[0], ratios[1], reason, data["regime"]["kind"], gate["self_replay_error"]
    )


def hunt(folder: Path, trace: Path, job: str) -> Hunt:
    """Hunt for what the jobs of one trace wait for. Raises ContendFailed."""
    ended = _run(["hunt", trace.name, *_job(job), "--json"], folder)
    try:
        data = json.loads(ended.stdout)["data"]
    except ValueError:
        return Hunt((), {}, 0, ended.stderr.strip()[-400:] or "(no output)")
    seen = tuple(
        Finding(one["kind"], one["resource"], one.get("edit", ""), one["share"] or 0.0, one["sentence"])
        for one in data["findings"]
    )
    time: dict[str, int] = {}
    for one in data["time"]:
        time[one["resource"]] = time.get(one["resource"], 0) + one["ns"]
    return Hunt(seen, time, data["shares_of"]["ns"])


def _job(job: str) -> list[str]:
    return ["--job", job] if job else []
