"""What a source file means: the set of its parts, without comments, docstrings, positions and where they stand.

A part is a statement at the top of a Python module, an item at the top of a Rust file, or a whole YAML document. What moved
to another file is the same part; so a result is out of date only where a part that it was made with is nowhere any more.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator

import yaml

PARSED = (".py", ".rs", ".yaml", ".yml")


def parts(path: str, text: str) -> frozenset[str]:
    """Digests. A file of another kind is one part, as it is.

    >>> parts("a.py", "def f():\\n    '''Doc.'''\\n    return 1  # why") == parts("b.py", "\\n\\ndef f(): return 1")
    True
    >>> parts("a.rs", "fn f() { 1 } // why") == parts("b.rs", "/* why */ fn f()\\n{ 1 }")
    True
    """
    if path.endswith(".py"):
        found: Iterator[str] = _python(text)
    elif path.endswith(".rs"):
        found = _rust(text)
    elif path.endswith((".yaml", ".yml")):
        found = iter([json.dumps(yaml.safe_load(text), sort_keys=True, default=str)])
    else:
        found = iter([text])
    return frozenset(hashlib.sha256(part.encode()).hexdigest()[:16] for part in found)


def _python(text: str) -> Iterator[str]:
    for node in ast.parse(text).body:
        # Where a name comes from is no part of what is done: its definition is a part of the file that has it.
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield ast.dump(_without_docstrings(node))


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _without_docstrings(node: ast.AST) -> ast.AST:
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        if isinstance(body, list):
            inner.body = [  # type: ignore[attr-defined]
                one for one in body if not _is_text(one) and not isinstance(one, ast.Import | ast.ImportFrom)
            ]
    return node


_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<text>b?r(?P<hash>\#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'])')
    |(?P<word>[A-Za-z_0-9]+|'[a-z_]\w*)
    |(?P<mark>.)""",
    re.X | re.S,
)


def _rust(text: str) -> Iterator[str]:
    """Items at the top, each with its attributes; modules of tests are left out."""
    tokens: list[str] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "skip" or match["skip"]:
            continue
        token = match[0]
        tokens.append(token)
        if not match["mark"]:
            continue
        depth += (token in "{([") - (token in "})]")
        if depth == 0 and token in ";}" and tokens:
            item = " ".join(tokens)
            if not item.startswith(
                ("# [ cfg ( test ) ]", "use ", "pub use ", "mod ", "pub mod ", "pub ( crate ) use ")
            ):
                yield item
            tokens = []
    if tokens:
        yield " ".join(tokens)
