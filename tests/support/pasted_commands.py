"""Whatever finding a test makes contend report, the command that it offers is one that the command line takes.

Of each test something is looked at in its findings; that every command of every rule can be pasted is held for all at once.
`PASTED=FILE pytest …` writes them to a file, a line each, with the rule that offers it.
"""

from __future__ import annotations

import importlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from contend.advice.finding import Finding
from contend.cli import VERBS
from support.every_made import every_made

_SEEN: dict[str, str] = {}
"""Commands, and the rule that offered each first."""


def wrong(command: str) -> str:
    """What is wrong with a command; "" for nothing. Runs nothing."""
    verb, *words = shlex.split(command)[1:]
    if verb not in VERBS:
        return f"no verb is called '{verb}'"
    try:
        with importlib.import_module(f"contend.cli.{verb}_").command.make_context(verb, words):
            return ""
    except click.ClickException as error:
        return error.format_message()


@pytest.fixture(autouse=True, scope="session")
def pasted_commands() -> Iterator[None]:
    """Fail whoever makes a finding with a command that cannot be pasted."""

    def check(of: Finding) -> None:
        if of.verify.startswith("contend ") and of.verify not in _SEEN:
            if why := wrong(of.verify):
                raise AssertionError(f"{of.verify} cannot be pasted: {why}")
            _SEEN[of.verify] = of.kind

    with every_made(Finding, check):
        yield
    if (file := os.environ.get("PASTED")) and _SEEN:
        with Path(file).open("a", encoding="utf-8") as out:
            out.writelines(f"{kind}\t{command}\n" for command, kind in sorted(_SEEN.items()))
