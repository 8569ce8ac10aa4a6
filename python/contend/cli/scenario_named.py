"""The scenario that a command line of `contend run` names, and the words that repeat it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from contend.cli import own_command
from contend.errors import BadInput

if TYPE_CHECKING:
    from contend.studies.model import Scenario


def meant(scenario: str | None, own: str) -> tuple[str, str]:
    if scenario is None and own:
        scenario = own_command.DEFAULT_SCENARIO
    if scenario is None:
        raise BadInput(
            "no scenario was named",
            hint="contend run noisy-neighbour -- ./mine, or one of these: contend list scenarios",
        )
    return scenario, own


def named(
    scenario: str,
    *,
    own: str,
    beside: tuple[str, ...],
    metrics: tuple[str, ...],
    running: tuple[str | None, float | None, int | None],
    skip_missing: bool,
    changed: tuple[str, ...],
) -> tuple[Scenario, list[str]]:
    """Load the scenario that a command line names, and return it with the words that repeat it. Raises BadInput.

    own: a command of the user's, or ""; running: URL and rate, or pid, of a victim that runs already; changed: as of --set.
    """
    from contend.studies.scenarios import load

    _is_no_program(scenario)
    repeated = _words(scenario, (), skip_missing)
    url, rate, pid = running
    if own:
        if rate is not None and url is None:
            raise BadInput(
                f"--rate {rate:g} goes with --url", hint="a command of yours has a rate of its own"
            )
        if url is not None or pid is not None:
            raise BadInput(
                "a command of yours, --url and --pid each name the victim", hint="give one of them"
            )
        repeated += ["--command", own, *_each("--beside", beside), *_each("--metric", metrics)]
        of_victim = own_command.settings(scenario, own, beside, metrics)
    elif beside or metrics:
        option = "--beside" if beside else "--metric"
        raise BadInput(
            f"{option} goes with a command of yours",
            hint=f"contend run {scenario} {option} … -- ./mine --flag",
        )
    else:
        of_victim = _running(url, rate, pid, scenario)
        repeated += _each("--set", of_victim)
    return load(scenario, (*of_victim, *changed)), repeated + _each("--set", changed)


def _running(url: str | None, rate: float | None, pid: int | None, scenario: str) -> tuple[str, ...]:
    """Settings with which what runs already is the victim: never started or ended, under the guard, beside neighbours that
    leave it half of the CPUs."""
    gentle: tuple[str, ...] = ("placement=same-host", "guard={}")
    if scenario == "noisy-neighbour":
        gentle += (
            "measure.trial=3s",
            f"neighbours.stress-cpu.workers={max(1, len(os.sched_getaffinity(0)) // 2)}",
        )
    if pid is not None:
        if url is not None or rate is not None:
            raise BadInput("--pid follows a process, and --url asks a service", hint="give one of the two")
        if not Path(f"/proc/{pid}").exists():
            raise BadInput(
                f"no process has the number {pid}", hint="pgrep NAME prints the numbers of those called NAME"
            )
        return f"victims=[{{process: {{pid: {pid}}}}}]", *gentle
    if url is None:
        if rate is not None:
            raise BadInput(
                f"--rate {rate:g} goes with --url", hint="contend run noisy-neighbour --url URL --rate 50"
            )
        return ()
    from contend.workloads.generators.listeners import parse

    parse(url)
    victim = json.dumps({"service": {"url": url} | ({} if rate is None else {"rate": rate})})
    return f"victims=[{victim}]", *gentle


def _words(scenario: str, settings: tuple[str, ...], skip_missing: bool) -> list[str]:
    """The command that repeats this run."""
    words = ["contend", "run", scenario, *(["--skip-missing"] if skip_missing else [])]
    return words + _each("--set", settings)


def _each(option: str, values: Iterable[str]) -> list[str]:
    """An option once for each of its values."""
    return [word for value in values for word in (option, value)]


def _is_no_program(scenario: str) -> None:
    """Raises BadInput for a program where a scenario is to be: a command of the user's stands behind --."""
    path = Path(scenario)
    if (
        "/" in scenario
        and not scenario.endswith((".yaml", ".yml"))
        and path.is_file()
        and os.access(path, os.X_OK)
    ):
        raise BadInput(
            f"'{scenario}' is a program, not a scenario",
            hint=f"contend run {own_command.DEFAULT_SCENARIO} -- {shlex.quote(scenario)}",
        )
