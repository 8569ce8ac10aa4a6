"""`contend run`: a scenario, from start to report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from contend.cli import own_command
from contend.cli.common import began_ns, finish, make_progress, runs_option, typed
from contend.cli.fleet_ import chosen, way_options
from contend.cli.scenario_named import meant, named
from contend.errors import BadInput
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.engine.execution import Outcome
    from contend.fleet.ssh import Way
    from contend.store.directory import RunDirectory
    from contend.studies.model import Scenario

WITH_RESUME = {"resume_run", "budget", "fail_above", "verbose", "as_json", "runs"}
"""What `--resume` takes beside it."""


@click.command("run", short_help="Run a scenario.", cls=own_command.TakesCommand)
@click.argument("scenario", required=False)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the scenario, like placement=own-cores.",
)
@click.option(
    "--beside",
    multiple=True,
    metavar="NAMES",
    help="With a command of yours: what runs beside it, workloads like fio,stress-cpu or a command like './other -x'.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="With a command of yours: wall, cpu, user, system, max_rss, or NAME[:UNIT[:higher|lower]]=REGEX-or-$.JSONPATH read"
    " from its output (default: wall, cpu). The first is the headline.",
)
@click.option("--command", "own", metavar="CMD", help="Your command in one word, in place of -- COMMAND.")
@click.option(
    "--budget",
    metavar="TIME",
    help="Wall time of it all but tear-down, like 5m. One too short for an answer is refused.",
)
@click.option(
    "--cloud",
    metavar="NAME",
    help="The cloud of a storm, a growing population, placed pairs, swept volumes or downloads: a name in clouds.yaml"
    " (default: OS_CLOUD), or local.",
)
@click.option(
    "--url",
    metavar="URL",
    help="The victim is a service of yours that runs already: it is asked at --rate, and the guard's limits hold.",
)
@click.option("--rate", type=float, metavar="N", help="With --url: requests a second (default: 50).")
@click.option(
    "--pid",
    type=click.IntRange(min=1),
    metavar="PID",
    help="The victim is a process of yours that runs already: it is followed, with its descendants, under the guard.",
)
@click.option(
    "--seed", type=int, metavar="N", help="Seed of the order of trials (default: random, recorded)."
)
@click.option("--dry-run", is_flag=True, help="Print cells, order and estimated time; make nothing.")
@click.option(
    "--hosts",
    metavar="HOSTS",
    help="Machines that each run it, like a,b,c, reached by SSH or of a fleet that is up (contend fleet).",
)
@way_options
@click.option("--resume", "resume_run", metavar="RUN", help="Go on with an interrupted run.")
@click.option(
    "--fail-above",
    metavar="PERCENT",
    help="As a gate: exit 4 if a headline metric is worse than alone, or than the first of what is compared, by more than"
    " this beyond its interval, 5 if that is undecided. --resume keeps it.",
)
@click.option("--skip-missing", is_flag=True, help="Leave out workloads whose programs are not installed.")
@click.option(
    "--keep-output",
    is_flag=True,
    help="Keep what the tools write in RUN/work until the run ends, to look at.",
)
@click.option("--name", metavar="NAME", help="Name of the run directory (default: the scenario's).")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON document on stdout; progress goes to stderr, where that is a terminal.",
)
@runs_option
def command(
    scenario: str | None,
    settings: tuple[str, ...],
    budget: str | None,
    beside: tuple[str, ...],
    metrics: tuple[str, ...],
    own: str | None,
    cloud: str | None,
    url: str | None,
    rate: float | None,
    pid: int | None,
    seed: int | None,
    hosts: str | None,
    address: str,
    ssh_config: str,
    there: str,
    dry_run: bool,
    resume_run: str | None,
    fail_above: str | None,
    skip_missing: bool,
    keep_output: bool,
    name: str | None,
    verbose: bool,
    as_json: bool,
    runs: Path,
) -> int:
    """Run SCENARIO, a built-in name (`contend list scenarios`) or a YAML file, or one about COMMAND.

    \b
    Examples:
      contend run noisy-neighbour
      contend run noisy-neighbour -- ./mine --flag
      contend run noisy-neighbour --beside fio,redis --beside './other' -- ./mine --flag
      contend run platform-overhead -- ./mine --flag
      contend run noisy-neighbour --set placement=own-cores --budget 10m
      contend run noisy-neighbour --url http://127.0.0.1:8080/health --rate 50
      contend run noisy-neighbour --pid 4711
      contend run mine.yaml --dry-run
      contend run boot-storm --cloud mycloud --set n=[1,5,10,20]
      contend run boot-storm --cloud local --set parameters.engine=podman
      contend run control-plane-growth --cloud mycloud --budget 10m
      contend run network-placement --cloud mycloud --set pairs=1
      contend run storage-sweep --set pools=[/srv/fast,/srv/slow] --dry-run
      contend run storage-sweep --cloud mycloud --set pools=[ssd,hdd]
      contend run --resume runs/noisy-neighbour-20261120-184210-7f3a
    """
    from contend.engine import checks
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking
    from contend.fleet.ssh import Way
    from contend.units import exact_duration, parse_duration_ns, parse_fraction

    limit = None if fail_above is None else parse_fraction(fail_above)
    if resume_run is not None:
        _refuse_with_resume(own)
        outcome = _go_on(resume_run, budget_ns=parse_duration_ns(budget) if budget else None, as_json=as_json)
        return finish(outcome, verbose=verbose, as_json=as_json, fail_above=limit)
    if budget is not None:
        settings += (f"measure.budget={exact_duration(parse_duration_ns(budget))}",)
    if cloud is not None:
        settings += (f"cloud={cloud}",)
    if seed is not None:
        settings += (f"measure.seed={seed}",)
    if hosts is not None:
        settings += (f"hosts.names=[{','.join(chosen((hosts,), None))}]",)
    scenario, mine = meant(scenario, own_command.given(own))
    name = name or Path(scenario).stem
    with checking(parse_duration_ns(budget) if budget else None, began_ns()):
        loaded, repeated = named(
            scenario,
            own=mine,
            beside=beside,
            metrics=metrics,
            running=(url, rate, pid),
            skip_missing=skip_missing,
            changed=settings,
        )
    repeated += [] if fail_above is None else ["--fail-above", fail_above]
    if loaded.fleet is not None:
        return _on_hosts(
            loaded,
            fail_above=limit,
            name=name,
            command=shlex.join(repeated),
            runs=runs,
            way=Way(there, ssh_config),
            address=address,
            refused={"--skip-missing": skip_missing, "--keep-output": keep_output},
            dry_run=dry_run,
            verbose=verbose,
            as_json=as_json,
        )
    _refuse_without_hosts()
    with checking(loaded.measure.budget, began_ns()):
        fitted, left_out = checks.fitted(loaded, runs)
        if skip_missing:
            from contend.engine.checks import without_missing

            fitted, absent = without_missing(fitted)
            left_out += absent
        if dry_run:
            from contend.cli import dry_run as ahead

            return ahead.show(fitted, left_out, as_json, runs)
    outcome = orchestrator.execute(
        fitted,
        name=name,
        command=shlex.join(repeated),
        runs=runs,
        progress=make_progress(as_json),
        skipped=left_out,
        keep_output=keep_output,
        began_ns=began_ns(),
        fail_above=limit,
    )
    return finish(outcome, verbose=verbose, as_json=as_json)


def _refuse_with_resume(own: str | None) -> None:
    """Raises BadInput for whatever `--resume` would ignore, `--dry-run` above all."""
    context = click.get_current_context()
    given = [
        parameter.opts[-1] if isinstance(parameter, click.Option) else parameter.human_readable_name
        for parameter in context.command.params
        if parameter.name not in WITH_RESUME
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
    if own is None and own_command.given(own):
        given.append("-- COMMAND")
    if given:
        raise BadInput(
            f"--resume goes on with the recorded scenario; it takes no {' or '.join(given)}",
            hint="leave that out, or start a new run",
        )


def _refuse_without_hosts() -> None:
    """Raises BadInput for options on how hosts are reached, of a run on this machine."""
    for name, option in (("address", "--address"), ("ssh_config", "--ssh-config"), ("there", "--contend")):
        if typed(name):
            raise BadInput(
                f"{option} goes with --hosts, and this runs on this machine", hint=f"leave {option} out"
            )


def _go_on(path: str, *, budget_ns: int | None, as_json: bool) -> Outcome:
    """Go on with the run at a path, on this machine or on its hosts. Raises BadInput."""
    from contend.engine import run as orchestrator
    from contend.store.directory import RunDirectory
    from contend.store.hosts import hosts_of_run, refuse_part

    with RunDirectory.open(path) as directory:
        refuse_part(directory)
        _consented(directory)
        progress = make_progress(as_json)
        if not hosts_of_run(directory):
            return orchestrator.resume(directory, progress=progress, budget_ns=budget_ns, began_ns=began_ns())
        from contend.fleet.needs import need

        need()
        from contend.fleet import coordinator

        return coordinator.resume(directory, progress=progress, budget_ns=budget_ns, began_ns=began_ns())


def _consented(run: RunDirectory) -> None:
    """Say so where somebody is held back again by the consent that a run began with."""
    from contend.studies.scenarios import of_run

    if suspects := of_run(run).consented:
        names = printable(", ".join(suspects))
        print(f"note: held back again, by the consent that the run began with: {names}", file=sys.stderr)


def of_line(words: Sequence[str]) -> Scenario:
    """Read the scenario of what a run wrote down as the command that repeats it, after `contend run`. Raises BadInput."""
    with command.make_context("run", list(words)) as context:
        given = context.params
        scenario, own = meant(given["scenario"], own_command.given(given["own"]))
        loaded, _ = named(
            scenario,
            own=own,
            beside=given["beside"],
            metrics=given["metrics"],
            running=(None, None, None),
            skip_missing=given["skip_missing"],
            changed=given["settings"],
        )
    return loaded


def _on_hosts(
    wanted: Scenario,
    *,
    fail_above: float | None,
    name: str,
    command: str,
    runs: Path,
    way: Way,
    address: str,
    refused: dict[str, bool],
    dry_run: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """A scenario with `hosts`: each of them runs it."""
    from contend.fleet.needs import need

    if given := [option for option, on in refused.items() if on]:
        raise BadInput(
            f"{given[0]} is of this machine, and the scenario has hosts", hint=f"leave {given[0]} out"
        )
    if dry_run:
        from contend.cli import dry_run as ahead

        return ahead.show_on_hosts(wanted, as_json)
    need()
    from contend.fleet import coordinator

    outcome = coordinator.execute(
        wanted,
        name=name,
        command=command,
        runs=runs,
        progress=make_progress(as_json),
        way=way,
        address=address,
        began_ns=began_ns(),
        fail_above=fail_above,
    )
    return finish(outcome, verbose=verbose, as_json=as_json)
