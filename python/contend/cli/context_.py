"""`contend context`: what a component's cost amounts to in a whole cloud."""

from __future__ import annotations

import click

from contend.cli.common import print_answer, write_report
from contend.text.safe import safe_console


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
@click.option("--image", metavar="SIZE", help="What each boot downloads, like 2G: both ends of a download.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(run: str, of: str | None, calls: float | None, image: str | None, as_json: bool) -> int:
    """Put what a component costs into a whole: cost × share = effect.

    RUN is a finished run of rpc-envelope, rpc-broker or image-download, STORM one of boot-storm on a cloud whose services
    run on this host. Of each variant in the place of the first it says what of all CPU time of the cloud that would save
    or cost, with intervals over blocks and storms together, and apart from it what of a boot's time to ACTIVE. RPC's share
    is of the services' traces where these have CPU times; else of messages counted beside the storms, times what a call
    costs in RUN. The report of RUN shows it from then on.

    \b
    Examples:
      contend context runs/rpc-envelope-… --of runs/boot-storm-…
      contend context runs/image-download-… --of runs/boot-storm-… --image 2G
    """
    from contend.context.choose import put
    from contend.context.words import answer
    from contend.store.directory import RunDirectory
    from contend.units import parse_size_bytes

    directory = RunDirectory.open(run)
    size = None if image is None else parse_size_bytes(image)
    context = put(directory, of, calls=calls, image=size)
    report = write_report(directory, context)
    if as_json:
        print_answer(answer(context), context)
        return 0
    from contend.report.terminal import show_in_context

    show_in_context(report, safe_console())
    return 0
