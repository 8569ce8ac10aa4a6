"""Sentences of the README and the guides are short, on average: a reader should not have to read one twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).parents[3]
MOST = 20.0
"""Words of a sentence, on average; code and a figure in backticks are one."""
_BLOCK, _COMMENT = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL), re.compile(r"<!--.*?-->", re.DOTALL)
_LINK, _CODE = re.compile(r"\[([^\]]*)\]\([^)]*\)"), re.compile(r"`[^`]*`")
_END, _WORD = re.compile(r"(?<=[.!?])\s+(?=[A-Z])"), re.compile(r"\w[\w’'%×±-]*")
_ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.) )")


def sentences(text: str) -> Iterator[int]:
    """The words in each sentence of a page, without tables, headings, pictures and blocks of code."""
    for paragraph in re.split(r"\n\s*\n", _COMMENT.sub("", _BLOCK.sub("", text))):
        lines = [line for line in paragraph.splitlines() if not line.startswith(("|", "#", "!"))]
        for item in _ITEM.split("\n".join(lines)):
            for sentence in _END.split(_CODE.sub("X", _LINK.sub(r"\1", item)).replace("\n", " ")):
                if (count := len(_WORD.findall(sentence))) > 2:
                    yield count


def test_words_of_sentences_are_counted() -> None:
    assert list(
        sentences("# Head\n\nOne two three. Four `code here` six\nseven.\n\n- a b c\n- d e f g\n")
    ) == [3, 4, 3, 4]


@pytest.mark.parametrize("pages", [("README.md",), ("README.md", "docs/guides/*.md")])
def test_sentences_are_short_on_average(pages: tuple[str, ...]) -> None:
    counts = [
        count
        for of in pages
        for path in ROOT.glob(of)
        for count in sentences(path.read_text(encoding="utf-8"))
    ]
    assert len(counts) > 20 and fmean(counts) <= MOST
