"""How the package is built, in figures: `python scripts/structure.py`; `--write FILE` keeps them as a result.

Of an earlier tree, which has to have the compiled module too: `git worktree add ../before COMMIT`, and `--of ../before`.

Imports are read from the sources, those inside functions too; what is only for types does not count.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# bench first: its package `results` has the name of a script here.
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from results.files import save_at
from results.record import recording

ROOT = Path(__file__).parents[1]
PACKAGE = Path("python/contend")
STUDIES = {
    "interference": ("Interference",),
    "overhead": ("Overhead",),
    "storm": ("Storm",),
    "growth": ("Growth",),
    "storage": ("Storage",),
    "placement": ("NetworkPlacement",),
    "sensitivity": ("Sensitivity",),
    "compare": ("Compare",),
    "imported": ("Imported",),
}
"""Names of the studies, and of the classes of their scenarios."""
LAYERS = (
    ("cli", "__main__"),
    ("serve", "fleet", "engine", "analysis", "imports", "context"),
    ("studies", "cells", "sweep"),
    ("report",),
    ("document",),
    ("advice", "contention", "sample"),
    (
        "platforms",
        "clouds",
        "workloads",
        "probes",
        "stats",
        "trace",
        "fetch",
        "elsewhere",
        "testbed",
        "scenario",
        "store",
    ),
    ("text", ""),
)
"""Rooms from the top floor down, those of earlier trees too; "" is the root of the package."""


@dataclass
class Module:
    """One file of the package, and the modules that it imports: at once, and inside functions."""

    name: str
    path: Path  # within the package
    tree: ast.Module
    at_once: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)

    @property
    def room(self) -> str:
        return (
            self.path.parts[0]
            if len(self.path.parts) > 1
            else "__main__"
            if self.path.stem == "__main__"
            else ""
        )


def modules(package: Path) -> dict[str, Module]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        parts = (package.name, *inside.with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, inside, ast.parse(path.read_text(encoding="utf-8")))
    for module in found.values():
        for node, inside in imports_in(module.tree, inside=False):
            names = {name for name in taken_from(node, found) if name in found and name != module.name}
            (module.later if inside else module.at_once).update(names)
    return found


def imports_in(node: ast.AST, *, inside: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            yield from imports_in(
                child, inside=inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            )


def taken_from(node: ast.Import | ast.ImportFrom, known: Container[str]) -> set[str]:
    """What it takes from: of a package that is only the way to a module, the module."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    inside = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in known else str(node.module) for name in inside}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one node (Tarjan, 1972), the largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def upward(found: Mapping[str, Module]) -> list[str]:
    """Imports of a room on a higher floor. Raises KeyError for a room that LAYERS does not name."""
    floor = {name: len(LAYERS) - at for at, names in enumerate(LAYERS) for name in names}
    return sorted(
        f"{module.name} -> {other}"
        for module in found.values()
        for other in module.at_once | module.later
        if floor[found[other].room] > floor[module.room]
    )


def asked_of_studies(found: Mapping[str, Module]) -> dict[str, list[str]]:
    """Outside studies/: where the type of a study's scenario is asked for, and where its name is compared."""
    classes = {name for of in STUDIES.values() for name in of}
    told: dict[str, list[str]] = {"isinstance": [], "names": []}
    for module in found.values():
        if module.room == "studies":
            continue
        for node in ast.walk(module.tree):
            where = f"{module.path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                named = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                if named & classes:
                    told["isinstance"].append(where)
            if isinstance(node, ast.Compare | ast.MatchValue):
                words = {
                    n.value
                    for n in ast.walk(node)
                    if isinstance(n, ast.Constant) and isinstance(n.value, str)
                }
                if words & set(STUDIES) and "study" in ast.unparse(node):
                    told["names"].append(where)
    return told


def touched(package: Path, study: str) -> list[str]:
    """Files of the package that have the study in their name, or its name or class in their code.

    Too many: `compare` is a verb too, and a storm is what workloads and causes are made of.
    """
    words = {study, *STUDIES[study]}
    found = []
    for path in sorted(package.rglob("*")):
        if path.suffix not in (".py", ".j2", ".html", ".yaml"):
            continue
        named = any(
            word.lower() in part.lower() for part in path.relative_to(package).parts for word in words
        )
        if named or (path.suffix == ".py" and _says(path, words)):
            found.append(str(path.relative_to(package)))
    return found


def _says(path: Path, words: set[str]) -> bool:
    """In an identifier or a string that is no docstring, as a word of its own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if (isinstance(node, ast.Name) and node.id in words) or (
            isinstance(node, ast.Attribute) and node.attr in words
        ):
            return True
        if isinstance(node, ast.Constant) and node.value in words:
            return True
        if isinstance(node, ast.alias) and set(node.name.split(".")) & words:
            return True
        if isinstance(node, ast.ImportFrom) and set(str(node.module).split(".")) & words:
            return True
    return False


def lines(package: Path) -> dict[str, int]:
    """Of .py files, by folder of the package."""
    told: dict[str, int] = {}
    for path in package.rglob("*.py"):
        folder = path.relative_to(package).parts[0] if path.parent != package else "(root)"
        told[folder] = told.get(folder, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return dict(sorted(told.items()))


def repository(root: Path) -> dict[str, int]:
    """Lines of all text files that are tracked, by their top folder."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    told: dict[str, int] = {}
    for name in names.decode().split("\0"):
        path = root / name
        if not name or not path.is_file() or b"\0" in (content := path.read_bytes())[:8000]:
            continue
        top = name.split("/")[0] if "/" in name else "(top)"
        told[top] = told.get(top, 0) + content.count(b"\n")
    return dict(sorted(told.items()))


def figures(root: Path) -> dict[str, Any]:
    package = root / PACKAGE
    found = modules(package)
    asked = asked_of_studies(found)
    at_once = {name: module.at_once for name, module in found.items()}
    every = {name: module.at_once | module.later for name, module in found.items()}
    by_study = {study: touched(package, study) for study in STUDIES}
    return {
        "root_modules": len(list(package.glob("*.py"))),
        "circles_at_once": [len(part) for part in circles(at_once)],
        "circles": [len(part) for part in circles(every)],
        "imports_inside_functions": sum(len(module.later - module.at_once) for module in found.values()),
        "upward": len(upward(found)),
        "isinstance_on_study": len(asked["isinstance"]),
        "comparisons_of_study_names": len(asked["names"]),
        "touched_by_study": {
            study: {
                "files": len(paths),
                "folders": len({str(Path(path).parent) for path in paths}),
                "outside": len([path for path in paths if not path.startswith(f"studies/{study}")]),
            }
            for study, paths in by_study.items()
        },
        "lines": lines(package),
        "python_lines": sum(lines(package).values()),
        "repository_lines": repository(root),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="The structure of the package, in figures.")
    parser.add_argument(
        "--of", type=Path, metavar="TREE", default=ROOT, help="a checkout (default: this one)"
    )
    parser.add_argument("--list", choices=["upward", "circles", "isinstance", "names", *STUDIES])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write FILE.json")
    asked = parser.parse_args()
    if asked.list:
        print(*_listed(asked.of / PACKAGE, asked.list), sep="\n")
        return 0
    with recording():
        told = figures(asked.of)
        for key, value in told.items():
            print(f"{key}: {value}")
        if asked.write:
            save_at(asked.write, told)
    return 0


def _listed(package: Path, what: str) -> list[Any]:
    found = modules(package)
    if what == "upward":
        return upward(found)
    if what == "circles":
        return circles({name: module.at_once | module.later for name, module in found.items()})
    return touched(package, what) if what in STUDIES else asked_of_studies(found)[what]


if __name__ == "__main__":
    sys.exit(main())
