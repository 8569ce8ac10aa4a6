"""What an entry point depends on, in this tree or at a commit: the files that it imports, and what those import."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from results.meaning import parts
from results.record import ROOT

ROOTS = {"python": "", "tests": "", "bench": ""}
"""Folders whose files are imported by their path below them."""
_ALWAYS_LEFT_OUT = ("bench/results/",)
"""How pages are written is no part of what they say."""
CACHE = ROOT / "target/results-status.json"
_KINDS = (".py", ".rs", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Known:
    """Of one version of a file: what it means, and the modules that it imports."""

    parts: frozenset[str]
    imports: tuple[str, ...]


@dataclass(slots=True)
class Tree:
    """Paths and blob ids of a commit, or of what git has of this tree with its changes."""

    blobs: Mapping[str, str]

    def under(self, entry: str) -> list[str]:
        """A file itself, or what a folder holds that can be read for its meaning."""
        if entry in self.blobs:
            return [entry]
        return [path for path in self.blobs if path.startswith(f"{entry}/") and path.endswith(_KINDS)]


@dataclass(slots=True)
class Blobs:
    """What is known of each version of a file, kept between runs by its content's id."""

    known: dict[str, Known] = field(default_factory=dict)

    @classmethod
    def load(cls) -> Blobs:
        """Nothing, where what is kept cannot be read."""
        try:
            told = json.loads(CACHE.read_text(encoding="utf-8"))
            return cls({blob: Known(frozenset(of[0]), tuple(of[1])) for blob, of in told.items()})
        except (OSError, ValueError, LookupError, TypeError):
            return cls()

    def keep(self) -> None:
        """For the next run."""
        CACHE.parent.mkdir(exist_ok=True)
        told = {blob: (sorted(of.parts), of.imports) for blob, of in self.known.items()}
        CACHE.write_text(json.dumps(told), encoding="utf-8")

    def learn(self, wanted: Mapping[str, str]) -> None:
        """Read those blobs, id to path, that are not known."""
        missing = {blob: path for blob, path in wanted.items() if blob not in self.known}
        if not missing:
            return
        texts = dict(_contents(missing))
        work = [(path, texts[blob]) for blob, path in missing.items()]
        if len(work) < 60:
            found = [_known(*one) for one in work]
        else:
            with ProcessPoolExecutor(2) as pool:
                found = list(pool.map(_known, *zip(*work, strict=True), chunksize=20))
        self.known |= dict(zip(missing, found, strict=True))


def tree(commit: str = "") -> Tree:
    """Of a commit; without one, of the working tree. LookupError where git does not know it."""
    if commit:
        done = _git("ls-tree", "-r", "-z", "--format=%(objectname) %(path)", commit, check=False)
        if done.returncode:
            raise LookupError(f"commit {commit} is not in this history")
        told = [line.split(" ", 1) for line in done.stdout.decode().split("\0") if line]
        return Tree({path: blob for blob, path in told})
    rows = [
        (line.split("\t")[1], line.split()[1])
        for line in _git("ls-files", "-s", "-z").stdout.decode().split("\0")
        if line
    ]
    blobs = dict(rows)
    changed = [path for path in _git("diff", "--name-only", "-z").stdout.decode().split("\0") if path]
    there = [path for path in changed if (ROOT / path).is_file()]
    ids = _git("hash-object", "-w", "--", *there).stdout.decode().split() if there else []
    return Tree(
        {path: blob for path, blob in blobs.items() if path not in changed}
        | dict(zip(there, ids, strict=True))
    )


def closure(
    entries: Iterable[str], of: Tree, blobs: Blobs, without: Iterable[str] = ()
) -> dict[str, frozenset[str]]:
    """Path to parts of all files that the entries come to. LookupError where an entry is not in that tree."""
    left_out = (*_ALWAYS_LEFT_OUT, *without)
    todo: list[str] = []
    for entry in entries:
        found = of.under(entry)
        if not found:
            raise LookupError(f"{entry} was not there")
        todo += found
    modules = _modules(of)
    seen: dict[str, frozenset[str]] = {}
    while todo:
        level = [path for path in dict.fromkeys(todo) if path not in seen and not path.startswith(left_out)]
        blobs.learn({of.blobs[path]: path for path in level})
        todo = []
        for path in level:
            known = blobs.known[of.blobs[path]]
            seen[path] = known.parts
            todo += [modules[name] for name in _named(known.imports, path) if name in modules]
    return seen


@cache
def _module_of(path: str) -> str:
    root, _, rest = path.partition("/")
    return rest.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if root in ROOTS else ""


def _modules(of: Tree) -> dict[str, str]:
    return {name: path for path in of.blobs if path.endswith(".py") and (name := _module_of(path))}


def _named(imports: Iterable[str], path: str) -> Iterator[str]:
    """Absolute names; `from a import b` may name a module b of a."""
    package = _module_of(path) if path.endswith("/__init__.py") else _module_of(path).rpartition(".")[0]
    for name in imports:
        dots = len(name) - len(name.lstrip("."))
        base = package.split(".")[: len(package.split(".")) - dots + 1] if dots else []
        words = [*base, *filter(None, name[dots:].split("."))]
        # A package is imported before what is in it.
        yield from (".".join(words[:end]) for end in range(1, len(words) + 1))


def _known(path: str, text: str) -> Known:
    try:
        return Known(parts(path, text), _imports(text) if path.endswith(".py") else ())
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _imports(text: str) -> tuple[str, ...]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found.add(base)
            found |= {f"{base}{'' if base.endswith('.') else '.'}{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("importlib.import_module", "import_module")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            found.add(str(node.args[0].value))
    return tuple(sorted(found))


def _contents(wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """By git cat-file --batch: a header with the size, the content, a line's end."""
    asked = "".join(f"{blob}\n" for blob in wanted).encode()
    told = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=ROOT, input=asked, capture_output=True, check=True
    ).stdout
    at = 0
    for blob in wanted:
        end = told.index(b"\n", at)
        size = int(told[at:end].split()[2])
        yield blob, told[end + 1 : end + 1 + size].decode("utf-8", "replace")
        at = end + 2 + size


def _git(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=check)
