"""`contend context`: what a component's cost amounts to in a whole cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from contend.cli.common import print_answer, write_report
from contend.errors import BadInput
from contend.text.safe import safe_console

if TYPE_CHECKING:
    from contend.store.directory import RunDirectory


@click.command("context", short_help="What one RPC's or download's cost is of a whole cloud.")
@click.argument("run")
@click.option(
    "--of", metavar="STORM", help="A run of boot-storm (default: the newest beside RUN that has shares)."
)
@click.option(
    "--calls",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="RPCs of a boot, where the storm counted none.",
)
@click.option(
    "--share",
    metavar="PERCENT",
    help="What part of all CPU time the component takes, as you know it: no storm is needed.",
)
@click.option("--image", metavar="SIZE", help="What each boot downloads, like 2G: both ends of a download.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(
    run: str, of: str | None, calls: float | None, share: str | None, image: str | None, as_json: bool
) -> int:
    """Put what a component costs into a whole: cost × share = effect.

    RUN is a finished run of rpc-envelope, rpc-broker or image-download, STORM one of boot-storm on a cloud whose services
    run on this host. Of each variant in the place of the first it says what of all CPU time of the cloud that would save
    or cost, with intervals over blocks and storms together, and apart from it what of a boot's time to ACTIVE. RPC's share
    is of the services' traces where these have CPU times; else of messages counted beside the storms, times what a call
    costs in RUN. The report of RUN shows it from then on.

    \b
    Examples:
      contend context runs/rpc-envelope-… --of runs/boot-storm-…
      contend context runs/rpc-envelope-… --share 5%
      contend context runs/image-download-… --of runs/boot-storm-… --image 2G
    """
    from contend.context.choose import put
    from contend.context.words import answer
    from contend.store.directory import RunDirectory
    from contend.units import parse_fraction, parse_size_bytes

    directory = RunDirectory.open(run)
    if share is not None:
        if of is not None or calls is not None or image is not None:
            raise BadInput(
                "--share states what a storm, --calls or --image would tell", hint="leave the others out"
            )
        return _stated(directory, parse_fraction(share), as_json)
    size = None if image is None else parse_size_bytes(image)
    context = put(directory, of, calls=calls, image=size)
    report = write_report(directory, context)
    if as_json:
        print_answer(answer(context), context)
        return 0
    from contend.report.terminal import show_in_context

    show_in_context(report, safe_console())
    return 0


def _stated(run: RunDirectory, share: float, as_json: bool) -> int:
    from contend.context.costs import costs
    from contend.context.effect import stated
    from contend.context.words import stated_lines
    from contend.report.printer import Printer

    if not 0 < share <= 1:
        raise BadInput(
            f"--share {100 * share:g}%: a share of all is above 0 and at most 100 %", hint="--share 5%"
        )
    of = stated(costs(run), share)
    lines = stated_lines(of)
    if as_json:
        print_answer(" ".join(lines), of)
        return 0
    printer = Printer(safe_console())
    for line in lines:
        printer.line(line)
    return 0
