"""Known answers at full size only where the estimators have changed since they last passed so.

known-counts.json holds, for each kind of experiment, how many of its thousands held and how many of its first few, with a
digest of what the sources of contend.stats and bench/known meant then. Where they mean the same, a test has the counts of
the thousands from there, and makes the few anew: they come from a seed, so that each of the counts has to be the same.
Where they do not, it makes both. Anew, after a change (in one process; it takes minutes):

    CONTEND_KNOWN_COUNTS=write pytest tests/unit/stats
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import known
from contend import stats
from known.result import Result

RECORD = Path(__file__).parents[1] / "unit/stats/known-counts.json"
FEW = 200


def meaning(*sources: Path) -> str:
    """The same while nothing of the modules in these folders changes but comments, docstrings and layout."""
    digest = hashlib.sha256()
    files = [(folder, path) for folder in sources for path in sorted(folder.rglob("*.py"))]
    for folder, path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and _documented(node):
                node.body = node.body[1:]
        digest.update(f"{path.relative_to(folder)}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


@functools.cache
def current() -> str:
    return meaning(Path(stats.__file__).parent, Path(known.__file__).parent)


def answer(made: Callable[[int], Result], experiments: int, few: int = FEW) -> Result:
    """Of so many experiments, made now or as recorded. The first few are made now, and are as recorded to the last one."""
    return answer_of(RECORD, current(), made, experiments, few)


def answer_of(record: Path, digest: str, made: Callable[[int], Result], experiments: int, few: int) -> Result:
    on_record: dict[str, Any] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    begun = made(few)
    name = f"{begun.table}, {begun.noise}, {begun.n}: {few} of {experiments}"
    if os.environ.get("CONTEND_KNOWN_COUNTS") == "write":
        whole = made(experiments)
        _write(record, digest, name, begun, whole)
        return whole
    counts = on_record["counts"].get(name)
    assert counts is not None, f"{record.name} has no '{name}'; CONTEND_KNOWN_COUNTS=write renews it"
    assert begun.count == counts["few"], f"{name}; if it has to be so, CONTEND_KNOWN_COUNTS=write renews it"
    if on_record["meaning"] != digest:
        return made(experiments)
    whole = {"count": counts["all"], "width": counts["width"], "extra": counts["extra"]}
    return replace(begun, experiments=experiments, **whole)


def _write(record: Path, digest: str, name: str, begun: Result, whole: Result) -> None:
    on_record = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    if on_record.get("meaning") != digest:
        on_record = {"meaning": digest, "counts": {}}
    counts = {"few": begun.count, "all": whole.count, "width": whole.width, "extra": whole.extra}
    assert on_record["counts"].get(name, counts) == counts, f"two kinds of experiment are called '{name}'"
    on_record["counts"] = dict(sorted({**on_record["counts"], name: counts}.items()))
    record.write_text(json.dumps(on_record, indent=1) + "\n", encoding="utf-8")
