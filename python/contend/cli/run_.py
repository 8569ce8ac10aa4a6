"""`contend run`: a scenario, from start to report."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from contend.cli.common import finish, make_progress, runs_option
from contend.errors import BadInput


@click.command("run", short_help="Run a scenario.")
@click.argument("scenario", required=False)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the scenario, like placement=own-cores.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Wall time the run may take, like 5m. The report says how precise that was.",
)
@click.option(
    "--cloud",
    metavar="NAME",
    help="The cloud of a storm, a growing population or downloads: a name in clouds.yaml (default: OS_CLOUD), or local.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Seed of the order of trials (default: random, recorded)."
)
@click.option("--dry-run", is_flag=True, help="Print cells, order and estimated time; make nothing.")
@click.option("--resume", "resume_run", metavar="RUN", help="Go on with an interrupted run.")
@click.option("--skip-missing", is_flag=True, help="Leave out workloads whose programs are not installed.")
@click.option(
    "--keep-output",
    is_flag=True,
    help="Keep what the tools write in RUN/work until the run ends, to look at.",
)
@click.option("--name", metavar="NAME", help="Name of the run directory (default: the scenario's).")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; progress goes to stderr.")
@runs_option
def command(
    scenario: str | None,
    settings: tuple[str, ...],
    budget: str | None,
    cloud: str | None,
    seed: int | None,
    dry_run: bool,
    resume_run: str | None,
    skip_missing: bool,
    keep_output: bool,
    name: str | None,
    verbose: bool,
    as_json: bool,
    runs: Path,
) -> int:
    """Run SCENARIO, a built-in name (`contend list scenarios`) or a YAML file.

    \b
    Examples:
      contend run noisy-neighbour
      contend run noisy-neighbour --set placement=own-cores --budget 10m
      contend run mine.yaml --dry-run
      contend run boot-storm --cloud mycloud --set n=[1,5,10,20]
      contend run boot-storm --cloud local --set parameters.engine=podman
      contend run control-plane-growth --cloud mycloud --budget 10m
      contend run --resume runs/noisy-neighbour-20261120-184210-7f3a
    """
    from contend import checks
    from contend import run as orchestrator
    from contend.scenario import load
    from contend.store import RunDirectory
    from contend.units import parse_duration_ns

    if resume_run is not None:
        if scenario or settings or cloud or seed is not None:
            raise BadInput(
                "--resume goes on with the recorded scenario; it takes no SCENARIO, --set, --cloud or --seed",
                hint="start a new run to change something",
            )
        with RunDirectory.open(resume_run) as directory:
            outcome = orchestrator.resume(
                directory,
                progress=make_progress(as_json),
                budget_ns=parse_duration_ns(budget) if budget else None,
            )
        return finish(outcome, verbose=verbose, as_json=as_json)
    if scenario is None:
        raise BadInput(
            "no scenario was named", hint="contend run noisy-neighbour, or: contend list scenarios"
        )
    if budget is not None:
        settings += (f"measure.budget={parse_duration_ns(budget) / 1e9:g}s",)
    if cloud is not None:
        settings += (f"cloud={cloud}",)
    if seed is not None:
        settings += (f"measure.seed={seed}",)
    asked, left_out = checks.fitted(load(scenario, settings))
    if skip_missing:
        asked, absent = checks.without_missing(asked)
        left_out += absent
    if dry_run:
        return _dry_run(asked, left_out, as_json)
    outcome = orchestrator.execute(
        asked,
        name=name or Path(scenario).stem,
        command=shlex.join(_words(scenario, settings, skip_missing)),
        runs=runs,
        progress=make_progress(as_json),
        skipped=left_out,
        keep_output=keep_output,
    )
    return finish(outcome, verbose=verbose, as_json=as_json)


def _words(scenario: str, settings: tuple[str, ...], skip_missing: bool) -> list[str]:
    """The command that repeats this run."""
    words = ["contend", "run", scenario]
    for setting in settings:
        words += ["--set", setting]
    return words + (["--skip-missing"] if skip_missing else [])


def _dry_run(asked: Any, left_out: tuple[str, ...], as_json: bool) -> int:
    """Print what would run. Everything is checked as a run would; nothing is made."""
    from contend import checks, forecast
    from contend.plan import make_plan
    from contend.units import format_duration

    checks.check(asked)
    plan = make_plan(asked, asked.measure.seed if asked.measure.seed is not None else 0)
    if as_json:
        json.dump(plan.to_json(), sys.stdout, indent=1)
        print()
        return 0
    places = checks.place(asked)
    first = next(iter(plan.rounds("counted")))
    block_s = forecast.block_s(plan, asked)
    print(asked.title or asked.origin)
    print(f"{len(plan.cells)} cells; places: {places.summary()}")
    for line in left_out:
        print(f"  left out: {line}")
    for cell in plan.cells:
        alone = cell.baseline or asked.study == "growth"  # whose kinds are compared with nothing
        role = "control" if cell.control else "" if alone else "baseline"
        print(f"  {cell.label + (' (control)' if cell.control else ''):<44} {role}")
    other = "" if asked.measure.seed is not None else " (another seed gives another)"
    print(f"order of the first block{other}:")
    print("  " + " · ".join(plan.cell(t.cell).id for t in first))
    pilot_s = forecast.pilot_s(plan, asked)
    budget = asked.measure.budget
    blocks = asked.measure.planned_blocks
    whole_ns = (block_s * blocks + pilot_s) * 1e9
    fit = min(blocks, int((budget / 1e9 - pilot_s) / block_s)) if budget else blocks
    within = f"at most {format_duration(whole_ns)} for {blocks} blocks"
    if budget and whole_ns > budget:
        within = f"{max(0, fit)} blocks in the budget of {format_duration(budget)}"
    print(f"estimated: {format_duration(block_s * 1e9)} a block, {within}")
    return 0
