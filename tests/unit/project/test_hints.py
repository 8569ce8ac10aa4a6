"""What hints tell people to type exists: each option that stands behind a verb is one of that verb's."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import contend
from contend.cli import VERBS

PACKAGE = Path(contend.__file__).parent
_COMMAND = re.compile(rf"contend (?P<verb>{'|'.join(VERBS)})\b(?P<rest>[^;:,()]*)")
_OPTION = re.compile(r"(?<!\S)(--?[a-z][a-z-]*)")


def hints(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a module's hints, with … for what is filled in."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            parts = [
                each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else "…"
                for each in ast.walk(node.value)
                if isinstance(each, ast.Constant | ast.FormattedValue)
            ]
            yield node.value.lineno, "".join(parts)


def options(verb: str, rest: str) -> set[str]:
    """The options of a verb; of `fleet start` and the like those of the part that is named."""
    command: click.Command = importlib.import_module(f"contend.cli.{verb}_").command
    if isinstance(command, click.Group):
        words = rest.split()
        if not words or words[0] not in command.commands:
            return {"--help"}
        command = command.commands[words[0]]
    return {spelt for each in command.params for spelt in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "-h",
    }


@pytest.mark.parametrize(
    "room", sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.rglob("*.py")))
)
def test_what_a_hint_says_to_type_exists(room: str) -> None:
    wrong = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for line, text in hints(path):
            for found in _COMMAND.finditer(text):
                own = found["rest"].split(" -- ")[0]
                unknown = set(_OPTION.findall(own)) - options(found["verb"], own)
                wrong += [
                    f"{path.relative_to(PACKAGE)}:{line}: contend {found['verb']}{own}: {unknown}"
                ] * bool(unknown)
    assert wrong == []


def test_there_are_hints_to_look_at() -> None:
    texts = [text for path in PACKAGE.rglob("*.py") for _, text in hints(path)]
    assert sum(bool(_COMMAND.search(text)) for text in texts) > 80
