"""`contend try`: a finding's advice, tried in turns with and without, and kept where it helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from contend.cli.common import began_ns, finish, load_report, make_progress, runs_option
from contend.errors import BadInput
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.advice.finding import Finding
    from contend.studies.prove.model import Prove

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
@click.option(
    "--consent", is_flag=True, help="Go on without asking: what is written is what --dry-run prints."
)
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
    """Try what a finding advises, on the live host: its neighbour is held back for moments at random, as by `contend prove`.

    RUN is one of `contend prove`, or a recording of `contend watch`; FINDING is the number of a finding of it, or its id.
    What was predicted is printed beside what came out. All is put back, unless --keep says otherwise and it helps: then the
    command that takes it back is printed. Exit 5 where it was to be kept, and does not help or is undecided.

    \b
    Examples:
      contend try runs/prove-…#1                     the same again, by itself
      contend try runs/prove-…#1 --keep              and hold it back for good, if that helps
      contend try seen#cpu-1 --url http://127.0.0.1:8080/ --for 6m
    """
    from contend.cli.run_ import _dry_run
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking
    from contend.studies.prove import holding, trying

    path, _, which = source.partition("#")
    scenario, finding, predicted = _experiment(path, which, url, rate, length, seed)
    with checking(scenario.measure.budget, began_ns()):
        if dry_run:
            return _dry_run(scenario, (), as_json=False)
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


def _experiment(
    path: str, which: str, url: str | None, rate: float | None, length: str, seed: int | None
) -> tuple[Prove, Finding, bool]:
    """The experiment, the finding that it tries, and whether that predicts what comes out. Raises BadInput."""
    from contend.cli.prove_ import scenario_of
    from contend.contention.findings import findings
    from contend.contention.watch_record import read_watched
    from contend.store.directory import RunDirectory
    from contend.studies.prove import trying
    from contend.studies.prove.model import Prove
    from contend.studies.scenarios import of_run
    from contend.units import parse_duration_ns

    run = RunDirectory.open(path, samples=True)
    if run.is_watch:
        finding = trying.chosen(findings(read_watched(run)), which, path)
        assert finding.treatment is not None
        of = finding.treatment
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
    finding = trying.chosen(load_report(run).analysis.findings, which, path)
    scenario = of_run(run)
    if not isinstance(scenario, Prove):
        raise BadInput(f"{path} is a run of '{scenario.study}', which holds nobody back", hint=finding.verify)
    if url is not None or rate is not None:
        raise BadInput("--url and --rate are of a watch's finding", hint="a run of prove has its victim")
    measure = scenario.measure.model_copy(update={"budget": parse_duration_ns(length), "seed": seed})
    return trying.again(scenario.model_copy(update={"measure": measure}), finding), finding, True
