"""Which faults can be put into a Python file: mutmut's operators, each applied at one place.

Texts are left alone, be it their letters or a text handed to a call: a message's words are no behaviour to assert.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_string

TEXT = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
OPERATORS = [
    (kind, operator)
    for kind, operator in mutation_operators
    if operator not in (operator_string, operator_arg_removal)
]


@dataclass(frozen=True)
class Mutant:
    """One fault. `begin` and `end` are characters of the file's text; a test that ran one of `lines` may notice it. It is
    in `outer`, a function of the module or of a class, or is a `default` of it."""

    path: str
    line: int
    lines: tuple[int, int]
    function: str
    outer: str
    default: bool
    begin: int
    end: int
    was: str
    now: str

    @property
    def key(self) -> str:
        """The same as long as this part of the file is the same."""
        told = f"{self.path}|{self.function}|{self.begin}|{self.was}|{self.now}"
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def applied(self, text: str) -> str:
        if text[self.begin : self.end] != self.was:
            raise ValueError(f"{self.path} has changed since its mutants were listed")
        return text[: self.begin] + self.now + text[self.end :]


def mutants_of(root: Path, paths: Iterable[Path], kept: Path) -> list[Mutant]:
    """Every mutant of these files, in the order of the files' text. What is found of a text is kept in that directory."""
    kept.mkdir(parents=True, exist_ok=True)
    return [mutant for path in sorted(paths) for mutant in _of_file_kept(root, path, kept)]


def _of_file_kept(root: Path, path: Path, kept: Path) -> list[Mutant]:
    told = str(path.relative_to(root)).encode() + path.read_bytes() + Path(__file__).read_bytes()
    at = kept / f"{hashlib.sha256(told).hexdigest()[:24]}.json"
    if not at.exists():
        rows = [vars(mutant) for mutant in _of_file(root, path)]
        at.write_text(json.dumps(rows), encoding="utf-8")
    rows = json.loads(at.read_text(encoding="utf-8"))
    return [Mutant(**{**row, "lines": tuple(row["lines"])}) for row in rows]


def sampled(mutants: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """`most` of them drawn without replacement, in the order drawn; all, if there are no more. The first of them are a
    random sample too, so that what was tried when a run was stopped can be counted."""
    return random.Random(seed).sample(mutants, min(most, len(mutants)))


def _of_file(root: Path, path: Path) -> list[Mutant]:
    text = path.read_text(encoding="utf-8")
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    finder = _Finder(str(path.relative_to(root)), text)
    wrapper.visit(finder)
    found = sorted(finder.found, key=lambda mutant: (mutant.begin, mutant.end, mutant.now))
    return list(dict.fromkeys(found))


class _Finder(cst.CSTVisitor):
    """Inside functions only: what a module or a class does when it is imported no test could select."""

    METADATA_DEPENDENCIES = (PositionProvider, ParentNodeProvider)

    def __init__(self, path: str, text: str) -> None:
        super().__init__()
        self.path, self.text = path, text
        self.found: list[Mutant] = []
        self._scope: list[str] = []
        self._functions: list[cst.FunctionDef] = []
        self._outer: list[str] = []
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Annotation, cst.Decorator)):
            return False
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._scope.append(node.name.value)
            if isinstance(node, cst.FunctionDef):
                self._functions.append(node)
                self._outer.append(".".join(self._scope))
        elif self._functions:
            self._at(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self._scope.pop()
            if isinstance(original_node, cst.FunctionDef):
                self._functions.pop()
                self._outer.pop()

    def _at(self, node: cst.CSTNode) -> None:
        if not (changes := list(_changes(node))):
            return
        position = self.get_metadata(PositionProvider, node, None)
        if position is None:
            return
        begin = self._starts[position.start.line - 1] + position.start.column
        end = self._starts[position.end.line - 1] + position.end.column
        was = self.text[begin:end]
        empty = cst.Module(body=[])
        if empty.code_for_node(node).strip() != was.strip():
            return  # in brackets of its own: what the position spans is not what the node is written as
        for changed in changes:
            now = empty.code_for_node(changed).strip()
            if now != was:
                self.found.append(
                    Mutant(
                        self.path,
                        position.start.line,
                        self._lines(node),
                        ".".join(self._scope),
                        self._outer[0],
                        self._is_default(node),
                        begin,
                        end,
                        was,
                        now,
                    )
                )

    def _is_default(self, node: cst.CSTNode) -> bool:
        """Of the outermost function: an inner one's are computed when that runs."""
        above: cst.CSTNode | None = node
        while above is not None and above is not self._functions[0]:
            if isinstance(above, (cst.BaseSuite, cst.Lambda)):
                return False
            if isinstance(above, cst.Param):
                return True
            above = self.get_metadata(ParentNodeProvider, above, None)
        return False

    def _lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """The lines that are run when the node is: of its statement, of a compound one's header, or of a function whose
        default it is."""
        own = self.get_metadata(PositionProvider, node)
        above: cst.CSTNode | None = node
        while above is not None:
            if isinstance(above, cst.Param):
                body = self.get_metadata(PositionProvider, self._functions[-1].body)
                return body.start.line, body.end.line
            if isinstance(above, cst.SimpleStatementLine):
                whole = self.get_metadata(PositionProvider, above)
                return whole.start.line, whole.end.line
            if isinstance(above, cst.BaseCompoundStatement):
                whole = self.get_metadata(PositionProvider, above)
                return min(whole.start.line, own.start.line), own.end.line
            above = self.get_metadata(ParentNodeProvider, above, None)
        return own.start.line, own.end.line


def _changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            yield from operator(node)
    if isinstance(node, cst.Call):
        yield from _arguments(node)


def _arguments(call: cst.Call) -> Iterator[cst.CSTNode]:
    """As mutmut does: each argument becomes None, or goes. Not those that are texts."""
    if isinstance(call.func, cst.Name) and call.func.value in ("len", "isinstance"):
        return
    for index, argument in enumerate(call.args):
        if isinstance(argument.value, TEXT):
            continue
        before, after = call.args[:index], call.args[index + 1 :]
        if argument.star == "" and not (
            isinstance(argument.value, cst.Name) and argument.value.value == "None"
        ):
            yield call.with_changes(args=[*before, argument.with_changes(value=cst.Name("None")), *after])
        if len(call.args) > 1:
            yield call.with_changes(args=[*before, *after])
