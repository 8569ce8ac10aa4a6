"""No interpreter that contend starts imports from its working directory, which may be anybody's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import contend

PACKAGE = Path(contend.__file__).parent


def _started() -> Iterator[tuple[str, list[object]]]:
    """Where argument lists begin with this interpreter and name a module or code, and their constants."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
                continue
            words = [e.value if isinstance(e, ast.Constant) else None for e in node.elts]
            if ast.unparse(node.elts[0]) == "sys.executable" and {"-m", "-c"} & {*map(str, words)}:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", words


def test_each_is_told_not_to() -> None:
    found = dict(_started())
    assert len(found) > 5, "the search finds what is started"
    loose = [
        where
        for where, words in found.items()
        if "-P" not in words[: min(words.index(w) for w in ("-m", "-c") if w in words)]
    ]
    assert loose == []
