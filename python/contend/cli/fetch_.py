"""`contend fetch`: a downloader that keeps to a budget of CPU time and rate."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from contend.errors import BadInput
from contend.text.printable import short

MOST_HEADERS = 1 << 20  # bytes of a file of them


@click.command("fetch", short_help="Download a URL or an image, verified, within a CPU and rate budget.")
@click.argument("what", metavar="URL|IMAGE")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where to; '-' is stdout (default: the name at the end of the URL, or the image's).",
)
@click.option("--cloud", default="", metavar="NAME", help="The cloud that has the image (default: OS_CLOUD).")
@click.option(
    "--checksum",
    metavar="ALGORITHM:HEX",
    help="What the content must hash to; 'none': an image's own checksum is not looked at.",
)
@click.option("--cpu-max", metavar="SHARE", help="Most CPU time, of one CPU, like 20%.")
@click.option("--rate", metavar="RATE", help="Most bytes a second, like 50MB/s, 48MiB/s or 1Gbit/s.")
@click.option(
    "--nice",
    type=click.IntRange(0, 19),
    default=10,
    show_default=True,
    help="Step back behind others on the CPUs and, above 0, on the disk.",
)
@click.option("--timeout", default="30s", show_default=True, metavar="TIME", help="Of a silent server.")
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    help="In a row without a byte of progress, each after a longer wait.",
)
@click.option(
    "--anew", "again", is_flag=True, help="From the first byte, whatever is there of an earlier download."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="For that server only; @FILE: a line each, @-: of stdin, so that a secret is on no command line.",
)
@click.option(
    "--cacert",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Authorities to trust, PEM (URLs).",
)
@click.option("--insecure", is_flag=True, help="Believe whoever answers; with a checksum that may be enough.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON document.")
def command(
    what: str,
    output: str | None,
    cloud: str,
    checksum: str | None,
    cpu_max: str | None,
    rate: str | None,
    nice: int,
    timeout: str,
    retries: int,
    again: bool,
    headers: tuple[str, ...],
    cacert: str | None,
    insecure: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Download a URL, or an image of a cloud's Glance by its name or id.

    The content is verified while it comes, and takes the file's name only when all of it is there, right, and on the
    disk. What a broken download leaves (.FILE.part) is gone on from by the same command, where the server's tag or the
    checksum makes that safe. Limits are this process's own: they hold without cgroups and without root.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 incomplete: the same command goes on.

    \b
    Examples:
      contend fetch https://host/debian.qcow2 --checksum sha512:0a1b… --cpu-max 20%
      contend fetch debian-13 --cloud mycloud -o /var/lib/images/debian.qcow2 --rate 50MB/s
      contend fetch http://host/image.raw -o - | qemu-img dd if=/dev/stdin of=…
    """
    from contend.fetch.order import Limits, become, order_of, parse_checksum, parse_rate
    from contend.units import NS_PER_S, parse_duration_ns, parse_fraction

    limits = Limits(
        cpu_max=None if cpu_max is None else _above_zero("--cpu-max", cpu_max, parse_fraction(cpu_max)),
        rate=None if rate is None else parse_rate(rate),
        nice=nice,
        timeout_s=_above_zero("--timeout", timeout, parse_duration_ns(timeout) / NS_PER_S),
        retries=retries,
    )
    wanted = None if checksum in (None, "none") else parse_checksum(str(checksum))
    more = tuple(_header(line) for given in headers for line in _lines(given))
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", what):
        if cloud:
            raise BadInput("--cloud is for images, not for URLs", hint="leave one of them out")
        from contend.fetch.order import Source

        if cacert is not None:
            from contend.clouds.config_files import check_authorities

            check_authorities(cacert)
        source = Source(what, more, verify=False if insecure else cacert or True, file_name=_last_name(what))
    else:
        if cacert or insecure:
            raise BadInput(
                "--cacert and --insecure are for URLs", hint="clouds.yaml has cacert and verify for a cloud"
            )
        from contend.fetch.image import find_image

        source = find_image(what, cloud)
        source = replace(source, headers=source.headers + more)
    if checksum is not None:
        source = replace(source, checksum=wanted)
    name = output or source.file_name
    if not name:
        raise BadInput(f"'{what}' ends with no file name", hint="-o FILE, or -o - for stdout")
    where = None if output == "-" else Path(name)
    become(order_of(source, where, limits, again=again, quiet=quiet, as_json=as_json))


def _above_zero(option: str, text: str, value: float) -> float:
    if value <= 0:
        raise BadInput(f"'{option} {text}' must be above zero", hint="leave it out for no limit")
    return value


def _lines(given: str) -> list[str]:
    """A header, or those of a file: `@FILE`, `@-`."""
    if not given.startswith("@"):
        return [given]
    try:
        data = sys.stdin.buffer.read(MOST_HEADERS + 1) if given == "@-" else _read(Path(given[1:]))
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise BadInput(f"'--header {given}' cannot be read: {error}", hint="a line a header") from error
    if len(data) > MOST_HEADERS:
        raise BadInput(f"'--header {given}' holds more than 1 MiB", hint="a line a header")
    return [line for line in text.splitlines() if line.strip()]


def _read(path: Path) -> bytes:
    """A file, or what a FIFO gives that somebody writes to: not for ever."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb") as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            os.set_blocking(file.fileno(), True)
        return file.read(MOST_HEADERS + 1)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise BadInput(f"'{name}' is no header", hint="write it like 'Name: value'")
    return name, value.strip()


def _last_name(url: str) -> str:
    """The file name at the end of a URL, "" where there is none that a file may have here. Raises BadInput."""
    try:
        name = unquote(urlsplit(url).path.rpartition("/")[2])
    except ValueError as error:
        raise BadInput(f"'{short(url)}' is no URL: {error}", hint="like https://host/image.qcow2") from error
    return "" if "/" in name or "\0" in name or name in (".", "..") else name
