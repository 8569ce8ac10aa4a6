"""Imports inside functions: which are there, and why each is not at the top.

An import stays inside a function only where `late_imports.toml` beside this file says why: it costs a command that should
start at once, its package is an extra, or it lives in other people's processes.

`python scripts/late_imports.py` names those that should be at the top, `--list` all with their reasons; `--measure` measures
the costs again and prints them beside those of the table, `--write` writes them there.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import structure

TABLE = Path(__file__).with_suffix(".toml")
LEAST_MS = 2.0
"""CPU time that an import has to cost for being late."""
_REPEATS = 7
_MODULES = """
import os, sys

def say(*_):
    with open(to, "w") as file:
        file.write("\\n".join(sys.modules))
    os._exit(0)

to, kind, *words = sys.argv[1:]
os.execv = os.execve = os.execvp = os.execvpe = say  # `contend fetch` becomes another program
if kind == "program":
    __import__(words[0])
else:
    from contend.cli import main
    sys.argv = ["contend", *words]
    try:
        main()
    except SystemExit:
        pass
say()
"""
_CPU = """
import importlib, sys, time
before, after = sys.argv[1].split(), sys.argv[2].split()
for name in before:
    importlib.import_module(name)
began = time.process_time()
for name in after:
    importlib.import_module(name)
print(time.process_time() - began)
"""


@dataclass(frozen=True)
class Late:
    """An import inside a function: of which module, in which line of it, and what it takes from."""

    module: str
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


@dataclass(frozen=True)
class Table:
    """Why imports are late.

    commands, programs: what should start at once: arguments of `contend`, and modules that run as programs.
    cost_ms: modules, with what is in them, and what importing them costs, ms of CPU time; a name may have `*`.
    extras: packages that the base install has not, by the extra, or the program, that has them.
    places: modules that import late whatever it costs, and why.
    helps: those that import late what some command that has them does without, whatever it costs, and why.
    """

    commands: tuple[tuple[str, ...], ...]
    programs: tuple[str, ...]
    cost_ms: Mapping[str, float]
    extras: Mapping[str, Sequence[str]]
    places: Mapping[str, str]
    helps: Mapping[str, str]

    @classmethod
    def read(cls, path: Path = TABLE) -> Table:
        """Raises TypeError for a section that there is not, ValueError for a cost below LEAST_MS."""
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        quick = told.pop("quick")
        table = cls(
            tuple(tuple(command.split()) for command in quick.pop("commands")),
            tuple(quick.pop("programs")),
            **told,
        )
        if quick:
            raise TypeError(f"{path}: quick has no {', '.join(quick)}")
        if cheap := [name for name, ms in table.cost_ms.items() if ms < LEAST_MS]:
            raise ValueError(f"{path}: {', '.join(cheap)}: below {LEAST_MS} ms an import is at the top")
        return table


@dataclass(frozen=True)
class Imports:
    """What the modules of a package import: at once, by module, and inside functions."""

    at_once: Mapping[str, frozenset[str]]
    late: tuple[Late, ...]

    @classmethod
    def of(cls, package: Path) -> Imports:
        known = structure.modules(package)
        at_once: dict[str, frozenset[str]] = {}
        late = []
        for name, module in known.items():
            found = [
                (node.lineno, target, inside)
                for node, inside in structure.imports_in(module.tree, inside=False)
                for target in structure.taken_from(node, known)
                if target != name
            ]
            at_once[name] = frozenset(target for _, target, inside in found if not inside)
            late += [Late(name, line, target) for line, target, inside in found if inside]
        return cls(at_once, tuple(sorted(late, key=lambda each: (each.module, each.line, each.target))))

    def with_all(self, name: str) -> frozenset[str]:
        """The module and all that importing it imports, of the package's modules and of others; of others no further."""
        found: set[str] = set()
        todo = [name]
        while todo:
            if (name := todo.pop()) not in found:
                found.add(name)
                todo += [*self.at_once.get(name, ()), *([name.rpartition(".")[0]] if "." in name else ())]
        return frozenset(found)


def covers(row: str, name: str) -> bool:
    """Whether a row of the table is about a module.

    >>> covers("rich", "rich.table"), covers("contend.studies.*.plots", "contend.studies.storm.plots"), covers("ssl", "sslx")
    (True, True, False)
    """
    return fnmatchcase(name, row) or name.startswith(f"{row}.")


def loaded(table: Table) -> dict[str, frozenset[str]]:
    """The modules that each command and program has when it ends, by what it is called."""
    from contend.cli import VERBS
    from contend.workloads.generators.__main__ import GENERATORS

    helps = [(verb, "--help") for verb in VERBS]
    generators = sorted({where.partition(":")[0] for where in GENERATORS.values()})
    told = {}
    for words in (*helps, *table.commands):
        told[" ".join(("contend", *words))] = _modules("command", *words)
    for module in (*table.programs, *generators):
        told[module] = _modules("program", module)
    return told


def _modules(*what: str) -> frozenset[str]:
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "modules"
        words = [word.replace("PACKAGE", str(structure.ROOT / structure.PACKAGE)) for word in what]
        subprocess.run(
            [sys.executable, "-P", "-c", _MODULES, str(to), *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return frozenset(to.read_text(encoding="utf-8").split())


def reason(
    late: Late, imports: Imports, table: Table, quick: Mapping[str, frozenset[str]]
) -> tuple[str, str]:
    """The row of the table that lets the import be late, and why; two empty texts where none does.

    quick: the modules that each quick command has. An import of what all of them have anyway saves nothing.
    """
    for extra, packages in table.extras.items():
        for package in packages:
            if covers(package, late.target):
                return package, extra
    for place, why in table.places.items():
        if covers(place, late.module):
            return place, why
    having = {command: has for command, has in quick.items() if late.module in has}
    for place, why in table.helps.items():
        if covers(place, late.module) and any(late.target not in has for has in having.values()):
            return place, why
    needed = imports.with_all(late.target)
    for command, has in having.items():
        for row, ms in sorted(table.cost_ms.items(), key=lambda each: -each[1]):
            if late.target not in has and row not in has and any(covers(row, name) for name in needed - has):
                return row, f"{ms} ms more for {command}"
    return "", ""


def unused(imports: Imports, table: Table) -> list[str]:
    """Rows that are about nothing that is imported late."""
    late = imports.late
    needed = frozenset[str]().union(*(imports.with_all(each.target) for each in late))
    return [
        *(row for row in (*table.places, *table.helps) if not any(covers(row, each.module) for each in late)),
        *(
            package
            for packages in table.extras.values()
            for package in packages
            if not any(covers(package, each.target) for each in late)
        ),
        *(row for row in table.cost_ms if not any(covers(row, name) for name in needed)),
    ]


def measured_ms(row: str, imports: Imports) -> float:
    """CPU time of importing what the row is about, in a process that has what the importing module has at its top.

    Median of some fresh interpreters; of several importing modules the one that it costs most. What is imported late only
    by way of other modules is measured beside `contend.cli`.
    """
    by_module: dict[str, set[str]] = {}
    for each in imports.late:
        if covers(row, each.target):
            by_module.setdefault(each.module, set()).add(each.target)
    if "*" in row:  # all that it covers together
        by_module = {" ".join(by_module): set().union(*by_module.values())}
    pairs = [(module, " ".join(sorted(targets))) for module, targets in by_module.items()]
    return max(_cpu_ms(*pair) for pair in pairs or [("contend.cli", row)])


def _cpu_ms(before: str, after: str) -> float:
    command = [sys.executable, "-P", "-c", _CPU, before, after]
    times = [
        float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(_REPEATS)
    ]
    return statistics.median(times) * 1e3


def _measure(imports: Imports, table: Table) -> Iterator[tuple[str, float]]:
    for row, before in table.cost_ms.items():
        ms = measured_ms(row, imports)
        print(f"{row:<44} {before:6.1f} ms in the table {ms:6.1f} ms now", flush=True)
        yield row, ms


def _written(costs: Iterable[tuple[str, float]]) -> str:
    text = TABLE.read_text(encoding="utf-8")
    for row, ms in costs:
        text = re.sub(rf'^("?{re.escape(row)}"? = )[0-9.]+', rf"\g<1>{ms:.1f}", text, flags=re.MULTILINE)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Imports inside functions, and why each is late.")
    parser.add_argument("--list", action="store_true", help="all of them, with their reasons")
    parser.add_argument("--measure", action="store_true", help="the costs of the table, measured again")
    parser.add_argument("--write", action="store_true", help="measure, and write them into the table")
    asked = parser.parse_args()
    imports = Imports.of(structure.ROOT / structure.PACKAGE)
    table = Table.read()
    if asked.measure or asked.write:
        costs = list(_measure(imports, table))
        if asked.write:
            TABLE.write_text(_written(costs), encoding="utf-8")
        return 0
    quick = loaded(table)
    bad = 0
    for each in imports.late:
        row, why = reason(each, imports, table, quick)
        bad += not row
        if asked.list or not row:
            print(f"{each}: {f'{row}: {why}' if row else 'to the top'}")
    for row in unused(imports, table):
        bad += 1
        print(f"{row}: imported late nowhere")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
