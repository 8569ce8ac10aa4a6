"""Output of a program that failed, for an error message: its last line, or the error of one of contend's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from contend.errors import BadInput
from contend.files import NO_OUTPUT
from contend.text.masking import mask, mask_argv


def refusal(errors: Path) -> BadInput | None:
    """The error that one of contend's generators printed about its input; None if it printed none."""
    match = re.search(r"^error: (.+)\n  hint: (.+)$", mask(tail(errors)), re.MULTILINE)
    return BadInput(match[1], hint=match[2]) if match else None


def last_words(*paths: Path) -> str:
    """The last line that a tool wrote, for a hint; for contend's generators, the error with its hint."""
    for path in paths:
        lines = [line for line in mask(tail(path)).splitlines() if line.strip()]
        if len(lines) > 1 and lines[-1].startswith("  hint: ") and lines[-2].startswith("error: "):
            return f"{lines[-2].removeprefix('error: ')} ({lines[-1].removeprefix('  hint: ')})"[:300]
        if lines:
            return lines[-1].strip().removeprefix("error: ")[:300]
    return NO_OUTPUT


def tail(path: Path, size: int = 4096) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def shown(argv: Sequence[str], most: int = 120) -> str:
    """A command for an error message: secrets masked, cut to `most` characters.

    >>> shown(("psql", "--password", "hunter2"))
    'psql --password ***'
    """
    return " ".join(mask_argv(argv))[:most]
