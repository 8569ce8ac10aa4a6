"""`contend run`: a scenario, from start to report."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contend.cli import own_command
from contend.cli.common import began_ns, finish, make_progress, print_answer, runs_option
from contend.cli.fleet_ import chosen, way_options
from contend.errors import BadInput
from contend.text.masking import mask
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.fleet.ssh import Way
    from contend.store.directory import RunDirectory
    from contend.studies.model import Scenario

MOST_SHOWN = 40  # cells of a block, in a dry run


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
    from contend.store.directory import RunDirectory
    from contend.store.hosts import hosts_of_run, refuse_part
    from contend.units import parse_duration_ns, parse_fraction

    limit = None if fail_above is None else parse_fraction(fail_above)
    if resume_run is not None:
        if (
            scenario
            or settings
            or cloud
            or url
            or pid is not None
            or seed is not None
            or own_command.given(own)
        ):
            raise BadInput(
                "--resume goes on with the recorded scenario; it takes no SCENARIO or COMMAND, --set, --cloud, --url, --pid"
                " or --seed",
                hint="start a new run to change something",
            )
        with RunDirectory.open(resume_run) as directory:
            refuse_part(directory)
            _consented(directory)
            if hosts_of_run(directory):
                from contend.fleet.needs import need

                need()
                from contend.fleet import coordinator

                outcome = coordinator.resume(
                    directory,
                    progress=make_progress(as_json),
                    budget_ns=parse_duration_ns(budget) if budget else None,
                    began_ns=began_ns(),
                )
                return finish(outcome, verbose=verbose, as_json=as_json, fail_above=limit)
            outcome = orchestrator.resume(
                directory,
                progress=make_progress(as_json),
                budget_ns=parse_duration_ns(budget) if budget else None,
                began_ns=began_ns(),
            )
        return finish(outcome, verbose=verbose, as_json=as_json, fail_above=limit)
    if budget is not None:
        settings += (f"measure.budget={parse_duration_ns(budget) / 1e9:g}s",)
    if cloud is not None:
        settings += (f"cloud={cloud}",)
    if seed is not None:
        settings += (f"measure.seed={seed}",)
    if hosts is not None:
        settings += (f"hosts.names=[{','.join(chosen((hosts,), None))}]",)
    scenario, mine = _meant(scenario, own_command.given(own))
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
    with checking(loaded.measure.budget, began_ns()):
        fitted, left_out = checks.fitted(loaded, runs)
        if skip_missing:
            from contend.engine.checks import without_missing

            fitted, absent = without_missing(fitted)
            left_out += absent
        if dry_run:
            return _dry_run(fitted, left_out, as_json, runs)
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
        scenario, own = _meant(given["scenario"], own_command.given(given["own"]))
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


def _meant(scenario: str | None, own: str) -> tuple[str, str]:
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
    victim = json.dumps({"service": {"url": url} | ({} if rate is None else {"rate": rate})})
    return f"victims=[{victim}]", *gentle


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
    from contend.engine.plan import make_plan
    from contend.fleet.needs import need

    if given := [option for option, on in refused.items() if on]:
        raise BadInput(
            f"{given[0]} is of this machine, and the scenario has hosts", hint=f"leave {given[0]} out"
        )
    if dry_run:
        hosts = wanted.fleet
        assert hosts is not None
        plan = make_plan(wanted, wanted.measure.seed or 0)
        print(printable(mask(wanted.title or wanted.origin)))
        print(f"{len(plan.cells)} cells on each of {len(hosts.names)} hosts: {', '.join(hosts.names)}")
        for cell in plan.cells:
            print(f"  {cell.label}{' (control)' if cell.control else ''}")
        print("each host has an order of its own; it checks the scenario when it has joined")
        return 0
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


def _dry_run(wanted: Any, left_out: tuple[str, ...], as_json: bool, runs: Path = Path("runs")) -> int:
    """Print what would run. Everything is checked as a run would; nothing is made."""
    from contend.engine import checks, duration, experience
    from contend.engine.plan import make_plan
    from contend.studies.registry import study_of
    from contend.units import format_duration

    checks.check(wanted)
    study = study_of(wanted)
    plan = make_plan(wanted, wanted.measure.seed if wanted.measure.seed is not None else 0)
    if not as_json and (steps := study.steps(wanted, plan, runs)):
        print(
            "\n".join(
                [
                    printable(mask(wanted.title or wanted.origin)),
                    *(f"  left out: {line}" for line in left_out),
                    *steps,
                ]
            )
        )
        if refusal := duration.needs(wanted, plan).refusal(wanted.measure.budget):
            raise refusal
        return 0
    if as_json:
        print_answer(f"would run {len(plan.cells)} cells; nothing was made", plan.to_json())
        return 0
    placement = checks.assign_cpus(wanted)
    first = next(iter(plan.rounds("counted")))
    print(printable(mask(wanted.title or wanted.origin)))
    print(f"{len(plan.cells)} cells; places: {placement.summary()}")
    for line in left_out:
        print(f"  left out: {line}")
    for line in study.lines(wanted, plan):
        print(f"  {line}")
    for label, (resource, trials, seconds) in duration.loads(plan, wanted).items():
        each = f" of about {format_duration(seconds * 1e9)}" if duration.is_known(plan) else ""
        print(f"load: {label} ({resource}), in at most {trials} trials{each}")
    if wanted.guard is not None:
        print(f"guard: {wanted.guard.sentence}")
    other = "" if wanted.measure.seed is not None else " (another seed gives another)"
    print(f"order of the first block{other}:")
    shown = [plan.cell(t.cell).id for t in first[:MOST_SHOWN]]
    print("  " + " · ".join(shown + [f"and {len(first) - MOST_SHOWN} more"] * (len(first) > MOST_SHOWN)))
    if not duration.is_known(plan):
        print(
            "estimated: duration unknown until the first trial ends: a command does not say how long it takes"
        )
        return 0
    of = duration.needs(wanted, plan, experience.read())
    budget = wanted.measure.budget
    within = f"at most {format_duration(of.whole_s * 1e9)} for {of.planned} blocks"
    if budget and of.whole_s * 1e9 > budget:
        within = f"{of.blocks_within(budget / 1e9)} blocks in the budget of {format_duration(budget)}"
    print(
        f"estimated: preparing {format_duration(of.preparing_s * 1e9)}, pilot {format_duration(of.pilot_s * 1e9)}, "
        f"{format_duration(of.block_s * 1e9)} a block, {within}"
    )
    if refusal := of.refusal(budget):
        raise refusal
    return 0
