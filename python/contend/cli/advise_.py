"""`contend advise`: what to do, by a run: which workloads together and which apart; else its findings' advice again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from contend.cli.common import headline, load_report, print_answer
from contend.errors import BadInput, ScenarioError
from contend.text.safe import safe_console

if TYPE_CHECKING:
    from contend.advice.document import RunAdvice
    from contend.report.model import ReportInput
    from contend.studies.base import Advice

REFUSED = 5


@click.command("advise", short_help="What to do, by a run: which workloads together, which apart.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--hosts",
    type=click.IntRange(min=1),
    metavar="N",
    help="Hosts to put the workloads of a forecast on (default: two workloads a host).",
)
@click.option(
    "--worst", is_flag=True, help="Spare the workload that is slowed most, instead of all of them together."
)
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(runs: tuple[str, ...], hosts: int | None, worst: bool, as_json: bool) -> int:
    """Say what to do by each RUN, and the command that checks it.

    Of a run of interference-forecast: which of its workloads to put on one host and which apart, with their predicted
    slowdowns, and the assignment to N hosts with the least of it, beside random placement and beside the best that the
    measured pairs know. A forecast that does not beat a row and a column effect is refused (exit 5). Of any other run: its
    findings' advice, as in its report.

    \b
    Examples:
      contend advise runs/interference-forecast-…
      contend advise runs/interference-forecast-… --hosts 2 --worst
      contend advise runs/noisy-neighbour-…
    """
    from contend.store.directory import RunDirectory

    reports = [load_report(RunDirectory.open(run)) for run in runs]
    if (hosts is not None or worst) and not any(_is_about_hosts(report) for report in reports):
        raise BadInput(
            "--hosts and --worst are of a forecast's workloads: no such run was named",
            hint="contend run interference-forecast",
        )
    advised = [advise(report, hosts=hosts, worst=worst) for report in reports]
    refused = [of for of, _ in advised if of.refused]
    code = REFUSED if refused else 0
    if as_json:
        from contend.advice.document import AdviceDocument

        answers = " ".join(headline(report.analysis) for report in reports)
        print_answer(answers, AdviceDocument(tuple(of for of, _ in advised)), code=code)
    else:
        from contend.report.advise_terminal import show_advice

        console = safe_console()
        for report, (_, advice) in zip(reports, advised, strict=True):
            show_advice(report, advice, console)
    for of in refused:
        print(
            f"no advice by {of.run}: {of.refused}\n"
            "  hint: the report has the measured slowdowns of the pairs; more blocks and more pairs make a forecast",
            file=sys.stderr,
        )
    return code


def advise(report: ReportInput, *, hosts: int | None, worst: bool) -> tuple[RunAdvice, Advice]:
    """Advise on one run: the JSON document, and the advice for people."""
    from contend.advice.document import RunAdvice
    from contend.scenario.yaml_file import read_yaml
    from contend.studies.registry import study_of
    from contend.studies.scenarios import parse

    analysis = report.analysis
    scenario = parse(read_yaml(report.scenario_text, "scenario.yaml", ScenarioError))
    advice = study_of(scenario).advice(scenario, analysis, hosts, worst=worst)
    answer = RunAdvice(analysis.run, analysis.study, advice.refused, advice.findings, advice.placement)
    return answer, advice


def _is_about_hosts(report: ReportInput) -> bool:
    from contend.studies.registry import study

    return study(report.analysis.study).advises_placement and report.analysis.result is not None
