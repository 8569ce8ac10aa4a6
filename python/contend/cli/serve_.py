"""`contend serve`: a page of many runs, read-only, on this host unless told otherwise."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from contend.cli.common import runs_option, typed, verb
from contend.errors import BadInput
from contend.text.answer import Answer
from contend.text.printable import printable
from contend.text.safe import plain
from contend.text.shape import Shape

if TYPE_CHECKING:
    from contend.serve.access import Listen
    from contend.serve.server import Server


@click.command("serve", short_help="A page of many runs: list, compare, trends.")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path), metavar="[DIR]")
@runs_option
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    default="127.0.0.1:8330",
    show_default=True,
    help="Where to listen; port 0 takes a free one. Anything but loopback needs a token.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Ask for the token in the first line of FILE.",
)
@click.option("--new-token", is_flag=True, help="Ask for a token that is made now, and printed once.")
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="A name under which browsers may ask for this host, beside its own.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("-v", "--verbose", is_flag=True, help="A line on stderr for each request.")
@click.option("--json", "as_json", is_flag=True, help="Say where it listens as one JSON document.")
def command(
    folder: Path | None,
    runs: Path,
    listen: str,
    token_file: Path | None,
    new_token: bool,
    allow_host: tuple[str, ...],
    open_page: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Serve the run directories in DIR (default: --runs) as pages: list and filter them, open a report, compare two, see a
    metric's trend.

    Read-only, and answers GET alone. Ctrl-C ends it. On a shared host other users can reach localhost: use --new-token.
    """
    if folder is not None and typed("runs"):
        raise BadInput(
            f"DIR and --runs both name what is served: {folder} and {runs}", hint="give one of them"
        )
    runs = folder if folder is not None else runs
    from contend.interrupts import Interrupts
    from contend.serve.access import Access, Listen, choose_token, others_can_read, own_names

    where = Listen.parse(listen)
    if token_file is not None and new_token:
        raise BadInput("--token-file and --new-token exclude each other", hint="choose one")
    token = choose_token(where, token_file, new=new_token)
    if token_file is not None and others_can_read(token_file):
        print(f"warning: other users can read {token_file}: chmod 600 {token_file}", file=sys.stderr)
    if not runs.is_dir():
        raise BadInput(
            f"there is no directory '{runs}'", hint="name the one that holds runs: contend serve DIR"
        )
    with Interrupts() as interrupts:
        try:
            with interrupts.postponed():  # DuckDB's import does not survive one
                from contend.serve.index import Index
                from contend.serve.server import Server
            access = Access(where.loopback, token, own_names(allow_host))
            with Server(where, Index(runs.absolute(), keep=True), access, verbose=verbose) as server:
                _say(server, where, token if new_token else None, token is not None, as_json)
                if open_page:
                    click.launch(server.url)
                server.serve_until_interrupted()
        except KeyboardInterrupt:
            return 0  # which is how it ends
    return 0


@dataclass(frozen=True, slots=True)
class Listening(Shape):
    """Where a server listens."""

    url: str
    token: Annotated[str | None, "where one was made, the only time that it is shown"]
    asks_for_token: bool


def _say(server: Server, where: Listen, new: str | None, asks: bool, as_json: bool) -> None:
    """Where it is. A token is printed only where it was made, which is the only time it can be known."""
    link = f"{server.url}/login?token={new}" if new else server.url
    headline = f"serving {printable(str(server.pages.folder))} at {link}"
    out = plain(sys.stdout)  # the token is to be seen, and where it goes
    if as_json:
        answer = Answer(verb(), headline, Listening(server.url, new, asks))
        print(json.dumps(answer.to_json()), file=out, flush=True)
        return
    print(f"{headline}   Ctrl-C ends it", file=out, flush=True)
    if asks and not new:
        words = f"log in once at {server.url}/login?token=TOKEN, or send Authorization: Bearer TOKEN"
        print(words, file=out, flush=True)
    if not where.loopback:
        print(
            "warning: no TLS: token and pages can be read on the way; a tunnel or a proxy adds it",
            file=sys.stderr,
        )
