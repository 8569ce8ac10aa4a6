"""`contend try`: a finding's advice, tried in turns with and without, and kept where it helps."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contend.cli.common import began_ns, finish, load_report, make_progress, runs_option, typed
from contend.errors import BadInput
from contend.platforms import procfs
from contend.text.printable import printable
from contend.units import NS_PER_S

if TYPE_CHECKING:
    from contend.advice.finding import Finding
    from contend.store.directory import RunDirectory
    from contend.studies.model import Scenario

NOT_KEPT = 5


@click.command("try", short_help="Try a finding's advice in turns, with and without.")
@click.argument("source", metavar="RUN[#FINDING]")
@click.option(
    "--url",
    metavar="URL",
    help="Of a watch's finding: ask the victim here; its p99 latency is the figure. Else it is followed.",
)
@click.option("--rate", type=float, metavar="N", help="With --url: requests a second (default: 50).")
@click.option(
    "--for",
    "--budget",
    "length",
    default="4m",
    metavar="TIME",
    show_default=True,
    help="End after this time at the latest.",
)
@click.option("--keep", is_flag=True, help="Where it helps: hold the neighbour back for good.")
@click.option("--consent", is_flag=True, help="Go on without asking: what is done is what --dry-run prints.")
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Who may be held back without asking (default: /etc/contend/prove.yaml).",
)
@click.option("--dry-run", is_flag=True, help="Print every write; make nothing.")
@click.option("--seed", type=int, metavar="N", help="Seed of the order (default: random, recorded).")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@runs_option
def command(
    source: str,
    url: str | None,
    rate: float | None,
    length: str,
    keep: bool,
    consent: bool,
    policy_file: Path | None,
    dry_run: bool,
    seed: int | None,
    verbose: bool,
    runs: Path,
) -> int:
    """Try what a finding advises, and print what was predicted beside what came out.

    FINDING is the number of a finding of RUN, or its id. By a run of `contend prove` or a recording of `contend watch` a
    neighbour is held back for moments at random, on the live host. All is put back, unless --keep says otherwise and it
    helps: then the command that takes it back is printed. Exit 5 where it was to be kept, and does not help or is undecided.

    By a run of noisy-neighbour or of a forecast, whose workloads contend itself starts, they run again as advised: CPUs of
    their own, a limit, two on one host.

    \b
    Examples:
      contend try runs/prove-…#1                     the same again, by itself
      contend try runs/prove-…#1 --keep              and hold it back for good, if that helps
      contend try seen#cpu-1 --url http://127.0.0.1:8080/ --for 6m
      contend try runs/noisy-neighbour-…#F1          its victim again, with what is advised
    """
    from contend.cli import dry_run as ahead
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking
    from contend.studies.prove import holding, trying
    from contend.studies.prove.model import Prove

    path, _, which = source.partition("#")
    scenario, finding, predicted = _experiment(path, which, url, rate, length, seed)
    if not isinstance(scenario, Prove):
        if keep:
            raise BadInput(
                f"what {path} ran has ended, so that there is nothing to keep",
                hint=f"do it: {finding.advice}",
            )
        if typed("policy_file"):
            raise BadInput(
                "--policy says who may be held back, and this holds nobody back", hint="leave it out"
            )
        consent = consent or _made_here(path)
        return _run_as_advised(
            scenario, finding, dry_run=dry_run, consent=consent, verbose=verbose, runs=runs
        )
    with checking(scenario.measure.budget, began_ns()):
        if dry_run:
            return ahead.show(scenario, (), as_json=False)
        plan = holding.switches(scenario)
    if not consent:
        from contend.cli.prove_ import allow

        allow(scenario, policy_file, list(holding.lines(plan)))
    outcome = orchestrator.execute(
        scenario.model_copy(update={"consent": True}),
        name="try",
        command=f"contend try {path}#{finding.id}",
        runs=runs,
        progress=make_progress(False),
        began_ns=began_ns(),
    )
    code = finish(outcome, verbose=verbose, as_json=False)
    measured = [cell for cell in load_report(outcome.run).analysis.cells if cell.metric.primary]
    if not measured:
        return code
    print(printable(trying.outcome(finding.estimate if predicted else None, measured[0].estimate)))
    if not keep:
        return code
    if code or measured[0].estimate.verdict != "lower":
        print("it is not kept: it is not shown to help")
        return code or NOT_KEPT
    [(suspect, switches)] = holding.switches(scenario).items()
    done, back = trying.keep(suspect, switches)
    print(f"kept: {printable(done)}\ntake it back: {printable(back)}")
    return code


def _was_there(pid: int, run: RunDirectory, ended_ns: int) -> None:
    """Raises BadInput for a process that is not the one that was watched: numbers are used again."""
    status = procfs.stat(pid)
    if run.environment().get("boot_id") != procfs.boot_id() or status is None:
        raise BadInput(f"process {pid} of {run.path.name} has ended", hint="contend watch -o DIR")
    # Since the host came up, without the time that it slept, as the recording counts.
    slept_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    if status.start_ticks * NS_PER_S // os.sysconf("SC_CLK_TCK") - slept_ns > ended_ns:
        raise BadInput(
            f"process {pid} began when {run.path.name} was over: it is another one of that number",
            hint="contend watch -o DIR",
        )


def _made_here(path: str) -> bool:
    """Return True where this user made the run, on this host since it came up: its commands are known to them."""
    from contend.store.directory import RunDirectory

    run = RunDirectory.open(path)
    return run.path.stat().st_uid == os.geteuid() and run.environment().get("boot_id") == procfs.boot_id()


def _run_as_advised(
    scenario: Scenario, finding: Finding, *, dry_run: bool, consent: bool, verbose: bool, runs: Path
) -> int:
    """Run a finding's own command, and compare what comes out with what was expected of it."""
    from contend.advice import tried
    from contend.analysis.tried import measured
    from contend.cli import dry_run as ahead
    from contend.cli.prove_ import agreed
    from contend.engine import checks
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking

    with checking(scenario.measure.budget, began_ns()):
        fitted, left_out = checks.fitted(scenario, runs)
        if dry_run:
            return ahead.show(fitted, left_out, as_json=False, runs=runs)
    # A run may come from somebody else, and with it what it started.
    if (own := scenario.own_commands) and not (consent or agreed(own, "Commands that the run has started.")):
        raise BadInput(
            f"the run has commands of its own, which are started only with consent: {'; '.join(own)}",
            hint="--dry-run shows what would run; then --consent",
        )
    outcome = orchestrator.execute(
        fitted,
        name="try",
        command=_repeated(finding.verify),
        runs=runs,
        progress=make_progress(False),
        skipped=left_out,
        began_ns=began_ns(),
    )
    code = finish(outcome, verbose=verbose, as_json=False)
    slowed = measured(finding, load_report(outcome.run).analysis.cells)
    print(printable(tried.outcome(finding, slowed)))
    return code


def _repeated(verify: str) -> str:
    """The command that repeats a trial of a finding: with an order of its own, and not that of the run it is from.

    >>> _repeated("contend run a --set measure.seed=42 --set placement=own-cores")
    'contend run a --set placement=own-cores'
    """
    words = shlex.split(verify)
    seeds = [
        at
        for at, word in enumerate(words)
        if at and words[at - 1] == "--set" and word.startswith("measure.seed=")
    ]
    return shlex.join(word for at, word in enumerate(words) if not {at, at + 1} & set(seeds))


def _experiment(
    path: str, which: str, url: str | None, rate: float | None, length: str, seed: int | None
) -> tuple[Scenario, Finding, bool]:
    """The experiment, the finding that it tries, and whether that predicts what comes out. Raises BadInput."""
    from contend.advice import tried
    from contend.cli.prove_ import scenario_of
    from contend.cli.run_ import of_line
    from contend.contention.findings import findings
    from contend.contention.watch_record import read_watched, scoped
    from contend.store.directory import RunDirectory
    from contend.studies.prove import trying
    from contend.studies.prove.model import Prove
    from contend.studies.scenarios import of_run
    from contend.units import parse_duration_ns

    run = RunDirectory.open(path, samples=True)
    if run.is_watch:
        record, watched = run.watch(), read_watched(run)
        finding = tried.chosen(findings(watched, scoped(record, watched)), which, path)
        assert finding.treatment is not None
        of = finding.treatment
        for pid in (int(name) for name in (of.victim, of.suspect) if name.isdecimal()):
            _was_there(pid, run, watched.last_ns)
        options = {
            "url": url,
            "rate": rate,
            "length": length,
            "by": of.by,
            "cpus": None,
            "trial": "2s",
            "seed": seed,
        }
        return scenario_of(of.victim, (of.suspect,), **options), finding, False
    if run.is_sample:
        raise BadInput(
            f"{path} is a recording of contend sample, which names no neighbour", hint="contend watch -o DIR"
        )
    finding = tried.chosen(load_report(run).analysis.findings, which, path)
    scenario = of_run(run)
    if url is not None or rate is not None:
        raise BadInput("--url and --rate are of a watch's finding", hint="a run has its victim")
    if isinstance(scenario, Prove):
        scenario = trying.again(scenario, finding)
    else:
        scenario = of_line(shlex.split(finding.verify)[2:])
        if scenario.fleet is not None:
            raise BadInput(f"{path} was run on several hosts", hint=finding.verify)
    measure = scenario.measure.model_copy(update={"budget": parse_duration_ns(length), "seed": seed})
    return scenario.model_copy(update={"measure": measure}), finding, True
