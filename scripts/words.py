"""Keeps words that say nothing to a stranger out of names, and of the first words of docstrings.

    scripts/words.py             fails where the package has more of one than scripts/words.json allows
    scripts/words.py FILE…       names every use in these files, and what to write instead
    scripts/words.py --write     writes scripts/words.json again, after some were mended

Names are those of modules, classes, functions, parameters, fields and variables. Texts are spared: "not found" is English.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CODE = ROOT / "python" / "contend"
LEFT = ROOT / "scripts" / "words.json"

NAMES: Mapping[str, str] = {
    "told": "say what it holds: row, text, answer, given",
    "asked": "requested, wanted, query, or what is asked for",
    "found": "name the thing: rows, result, match; `not_found` is fine",
    "said": "text, line, message, output",
    "stood": "state, limits, or what stood there",
    "crowd": "neighbours",
    "crowds": "neighbours",
    "mistake": "error",
    "mistakes": "errors",
    "party": "victim, neighbour, process, group",
    "parties": "workloads, processes, groups",
    "place": "host, folder, index, cpus or position: which of them",
    "places": "hosts, folders, indices, cpus or positions: which of them",
    "anew": "again",
    "ours": "own",
}
"""Words that no name has, and what to write instead."""
OPENINGS = re.compile(
    r"(?:Of|By|What|Whether|Which|Told|Said|Found|Asked|Stood)\b|(?:All|One|The same|Its|Theirs|Ours)\."
    r"|One of (?:them|it|these)\b"
)
"""How no docstring begins: its first line is an imperative or a noun phrase that is understood without the code."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_NEGATED = re.compile(r"(?:not|nothing|none)_found")


class Use(NamedTuple):
    """One use to mend: its line, the word ("docstring" for one that begins badly), the text, and what to write."""

    line: int
    word: str
    text: str
    hint: str


def uses(text: str, stem: str = "") -> Iterator[Use]:
    """Every use in a module's text; `stem` is the module's own name.

    >>> [use.text for use in uses('def told():\\n    "Whether."\\n    not_found = 1', "places")]
    ['places', 'told', 'Whether.']
    """
    yield from _in_name(1, stem)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                documented = ast.get_docstring(node) or ""
                if OPENINGS.match(documented):
                    line = node.body[0].lineno
                    hint = "begin with an imperative or a noun phrase"
                    yield Use(line, "docstring", documented.splitlines()[0], hint)
                if not isinstance(node, ast.Module):
                    yield from _in_name(node.lineno, node.name)
            case ast.arg():
                yield from _in_name(node.lineno, node.arg)
            case ast.Name(ctx=ast.Store()):
                yield from _in_name(node.lineno, node.id)
            case ast.Attribute(ctx=ast.Store()):
                yield from _in_name(node.lineno, node.attr)


def _in_name(line: int, name: str) -> Iterator[Use]:
    for word in {word.lower() for word in _WORD.findall(_NEGATED.sub("", name))} & NAMES.keys():
        yield Use(line, word, name, NAMES[word])


def uses_of(path: Path) -> list[Use]:
    """Every use in a file, in the order of its lines. Raises OSError, SyntaxError."""
    return sorted(uses(path.read_text(encoding="utf-8"), path.stem))


def counts(of: Iterable[Use]) -> dict[str, int]:
    """How many uses there are of each word, and of docstrings that begin badly."""
    return dict(sorted(Counter(use.word for use in of).items()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="name every use in these files")
    parser.add_argument("--write", action="store_true", help="write scripts/words.json again")
    given = parser.parse_args()
    if given.files:
        return show(given.files)
    now = counts(use for path in sorted(CODE.rglob("*.py")) for use in uses_of(path))
    if given.write:
        LEFT.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    known = json.loads(LEFT.read_text(encoding="utf-8"))
    more = {word: count for word, count in now.items() if count > known.get(word, 0)}
    for word, count in more.items():
        print(f"{word}: {count} uses in {CODE.relative_to(ROOT)}, of which {known.get(word, 0)} are known")
    if more:
        print(
            "hint: scripts/words.py FILE… names the uses in the files you changed, and what to write instead"
        )
    return 1 if more else 0


def show(files: Iterable[Path]) -> int:
    """Name every use in the files; 1 where there is one."""
    code = 0
    for path in files:
        for use in uses_of(path):
            code = 1
            print(f"{path}:{use.line}: {use.text}\n  hint: {use.hint}")
    return code


if __name__ == "__main__":
    sys.exit(main())
