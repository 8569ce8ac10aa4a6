"""Figures that README, the guides and CHANGELOG quote from results, in marks that no reader sees:

    <!-- r:kills.recovered -->108 of 108<!-- /r -->          a figure that the recipe names, or a path into the data
    <!-- r:kills {{ recovered }} of {{ kills }} -->108 of 108<!-- /r -->      a Jinja template over the data

`differing()` finds those that are not what the data say, `rewritten()` writes them anew, and `unmarked()` finds figures that
look measured and stand outside of marks and code.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from results import files
from results.recipes import of_data, recipes
from results.record import ROOT
from results.render import environment

MARK = re.compile(
    r"<!-- r:(?P<of>[\w-]+)(?:\.(?P<path>[\w.-]+))?(?: (?P<template>(?:(?!-->).)+?))? -->"
    r"(?P<text>(?:(?!<!--).)*)<!-- /r -->",
    re.S,
)
_FENCE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.M | re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_LINK = re.compile(r"\]\([^)]*\)")
_UNIT = r"(?:%|×|µs|ms|ns|s\b|min\b|h\b|[kMG]i?B\b|CPU-s|MB/s|times\b|points\b|kills\b)"
_NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
MEASURED = re.compile(
    rf"{_NUMBER} \[{_NUMBER}, {_NUMBER}\]|\b{_NUMBER} of {_NUMBER}\b"
    rf"|{_NUMBER}(?: ?[–-] ?{_NUMBER}| to {_NUMBER})? ?{_UNIT}"
)


@dataclass(frozen=True, slots=True)
class Differs:
    """A quoted figure that is not what the data say."""

    path: str
    line: int
    mark: str
    text: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.mark} is '{self.wanted}', and '{self.text}' is written"


def pages(root: Path = ROOT) -> list[Path]:
    """Where figures are quoted."""
    return [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs/guides").glob("*.md"))]


def value(of: str, path: str | None, template: str | None) -> str:
    """What the data say. LookupError where there is no such result or figure."""
    if not files.path_of(of).exists() or not of_data(of):
        raise LookupError(f"there is no result '{of}'")
    data = _data(of)
    recipe = recipes()[of_data(of)[0]]
    if template is None and path in recipe.figures:
        template = recipe.figures[path]
    if template is None:
        return _at(data, path or "", of)
    try:
        page = importlib.import_module(f"results.pages.{recipe.body}")
        return environment().from_string(template).render(data, d=data, page=page)
    except jinja2.TemplateError as error:
        raise LookupError(f"{of}: {error}") from error


def differing(path: Path, root: Path = ROOT) -> Iterator[Differs]:
    """Each mark whose text is another than its value; line breaks within it do not count."""
    text = path.read_text(encoding="utf-8")
    for match in MARK.finditer(text):
        try:
            wanted = value(match["of"], match["path"], match["template"])
        except LookupError as error:
            wanted = f"(no figure: {error})"
        if " ".join(match["text"].split()) != wanted:
            mark = f"r:{match['of']}" + (f".{match['path']}" if match["path"] else "")
            line = text.count("\n", 0, match.start()) + 1
            yield Differs(str(path.relative_to(root)), line, mark, " ".join(match["text"].split()), wanted)


def rewritten(text: str) -> str:
    """With the values of now; a text that is right keeps its line breaks."""

    def new(match: re.Match[str]) -> str:
        wanted = value(match["of"], match["path"], match["template"])
        if " ".join(match["text"].split()) == wanted:
            return match[0]
        return f"{match[0][: match.start('text') - match.start()]}{wanted}<!-- /r -->"

    return MARK.sub(new, text)


def unmarked(text: str) -> list[str]:
    """Figures with a unit, a ratio or an interval that stand outside of marks and code."""
    text = MARK.sub(" ", text)
    for other in (_FENCE, _COMMENT, _LINK):
        text = other.sub(" ", text)
    return [" ".join(match[0].split()) for match in MEASURED.finditer(" ".join(text.split()))]


@cache
def _data(of: str) -> dict[str, Any]:
    return files.load(of)


def _at(data: Mapping[str, Any], path: str, of: str) -> str:
    found: Any = data
    for word in path.split("."):
        try:
            found = found[int(word)] if isinstance(found, list) else found[word]
        except (LookupError, TypeError, ValueError) as error:
            raise LookupError(f"{of} has no '{path}'") from error
    return f"{found:,}" if isinstance(found, int) else str(found)
