"""Writes a page of the manual for contend and each of its verbs, from their help.

python scripts/manual.py DIR VERSION
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

import click

from contend.cli import VERBS, cli


def main() -> None:
    """Write contend.1, contend-VERB.1 and, of verbs of verbs, contend-VERB-VERB.1."""
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    write(place, "contend", cli, [f"contend-{verb}" for verb in VERBS])
    for verb in VERBS:
        command: click.Command = importlib.import_module(f"contend.cli.{verb}_").command
        below = sorted(command.commands) if isinstance(command, click.Group) else []
        write(place, f"contend-{verb}", command, ["contend", *(f"contend-{verb}-{each}" for each in below)])
        for each in below:
            assert isinstance(command, click.Group)
            write(place, f"contend-{verb}-{each}", command.commands[each], [f"contend-{verb}"])


def write(place: Path, name: str, command: click.Command, see: list[str]) -> None:
    """One page."""
    words = name.replace("-", " ")
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    with click.Context(command, info_name=words, max_content_width=100, terminal_width=100) as context:
        usage = " ".join(command.collect_usage_pieces(context))
        options = [
            record for each in command.get_params(context) if (record := each.get_help_record(context))
        ]
        first, _, rest = (command.help or "").strip().partition("\n\n")
        lines = [
            f'.TH "{name.upper()}" 1 "{day}" "contend {sys.argv[2]}" "contend"',
            ".SH NAME",
            f"{name} \\- {text(' '.join(first.split()).removesuffix('.'))}",
            ".SH SYNOPSIS",
            f".B {words}",
            text(usage),
            *(described(rest) if rest else []),
        ]
        if name == "contend":
            lines.append(".SH VERBS")
            lines += [line for verb, of in VERBS.items() for line in (".TP", f"\\fB{verb}\\fP", text(of))]
        lines.append(".SH OPTIONS")
        lines += [line for says, of in options for line in (".TP", f"\\fB{text(says)}\\fP", text(of))]
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{each}\\fP(1)" for each in see)]
    (place / f"{name}.1").write_text("\n".join(lines) + "\n", encoding="utf-8")


def described(rest: str) -> list[str]:
    """What follows the first paragraph; what click does not wrap stands as it is."""
    lines = [".SH DESCRIPTION"]
    for paragraph in rest.split("\n\n"):
        kept = "\b" in paragraph
        body = [text(line) for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        lines += [".PP", *([".nf", *body, ".fi"] if kept else body)]
    return lines


def text(given: str) -> str:
    """As roff reads it: no hyphen that is not one, and no line that is a request.

    >>> text("-n 3")
    '\\\\-n 3'
    """
    said = given.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return f"\\&{said}" if said.startswith((".", "'")) else said


if __name__ == "__main__":
    main()
