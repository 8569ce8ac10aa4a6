"""The oldest Rust that contend says it builds with, Debian 13's, has no chains of `let` in conditions (they came with 1.88).

`make demo` of a Debian 13 (tests/accept/test_demo_chroot.py) is the whole proof; this is the part that nobody runs it for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHAINS_SINCE = (1, 88)
LET = re.compile(r"\blet\b")
SOURCES = sorted((ROOT / "crates").rglob("*.rs"))


def chains(text: str) -> Iterator[int]:
    """Lines of conditions that hold a `let` and an `&&` beside it."""
    bare = re.sub(r'//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', lambda m: " " * len(m[0]), text)
    for found in re.finditer(r"\b(?:if|while)\b", bare):
        depth, has_let, has_and = 0, False, False
        for at in range(found.end(), len(bare)):
            here = bare[at]
            if depth == 0 and (here in "{;" or bare.startswith("=>", at)):
                break
            depth += (here in "([") - (here in ")]")
            if depth < 0:
                break
            if depth == 0:
                has_let = has_let or bool(LET.match(bare, at))
                has_and = has_and or bare.startswith("&&", at)
        if has_let and has_and:
            yield text.count("\n", 0, found.start()) + 1


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("if let Some(x) = y && z {}", [1]),
        ("if a\n    && let Some(x) = y\n{}", [1]),
        ("while let Some(x) = y\n    && z\n{}", [1]),
        ("\nif let Some(x) = y.filter(|_| a && b) {}", []),
        ('if let Some(x) = f("a && b") {} // && let', []),
        ("match x { Some(y) if y && z => {} }", []),
        ("if a && b { let c = d && e; }", []),
    ],
)
def test_chains_are_found(text: str, lines: list[int]) -> None:
    assert list(chains(text)) == lines


def test_there_are_none_while_an_older_rust_is_promised() -> None:
    told = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    assert tuple(map(int, told.split("."))) < CHAINS_SINCE, "then this test has nothing to say any more"
    assert len(SOURCES) > 100
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in SOURCES for line in chains(path.read_text("utf-8"))
    ]
    assert found == []
