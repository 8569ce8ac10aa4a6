"""Formats of other tools: which of them a file is, by its content, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contend.errors import BadInput, suggest
from contend.imports.document import Document
from contend.imports.formats import fio, hyperfine, iperf3, jmeter, k6, pgbench, rally, sysbench
from contend.imports.json_text import Collectors
from contend.imports.source import Source


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    read: Callable[[Source], Document]


FORMATS: Mapping[str, Format] = {
    name: Format(name, module.read)
    for name, module in (
        ("fio", fio),
        ("hyperfine", hyperfine),
        ("iperf3", iperf3),
        ("jmeter", jmeter),
        ("k6", k6),
        ("pgbench", pgbench),
        ("rally", rally),
        ("sysbench", sysbench),
    )
}
COLLECTORS: Collectors = {**fio.COLLECTORS, **iperf3.COLLECTORS, **rally.COLLECTORS}
"""The long lists of all formats, since a document is read before it is known which tool wrote it."""
_TEXTS = (("sysbench", sysbench.is_mine), ("pgbench", pgbench.is_mine))
_TABLES = (("jmeter", jmeter.is_mine_table), ("k6", k6.is_mine_table))
_DOCUMENTS = (
    ("fio", fio.is_mine),
    ("iperf3", iperf3.is_mine),
    ("hyperfine", hyperfine.is_mine),
    ("rally", rally.is_mine),
    ("k6", k6.is_mine),
)


def named(name: str) -> Format:
    """Look up the format of this name. Raises BadInput where there is none."""
    if name not in FORMATS:
        raise BadInput(f"no format is called '{name}'", hint=suggest(name, FORMATS))
    return FORMATS[name]


def recognise(source: Source) -> Format:
    """Recognise a format by its content, never by its name. Raises BadInput where none fits, and for JSON that is torn."""
    for name, is_mine in _TEXTS:
        if is_mine(source.head):
            return FORMATS[name]
    columns, _ = source.header()
    for name, is_table in _TABLES:
        if is_table(columns):
            return FORMATS[name]
    if _holds_json(source):
        document = source.json.first
        for name, is_document in _DOCUMENTS:
            if is_document(document):
                return FORMATS[name]
    raise BadInput(
        f"{source.name} is of no format that is known",
        hint=f"known are results of {', '.join(FORMATS)}; --as FORMAT says which",
    )


def _holds_json(source: Source) -> bool:
    begins = source.head.lstrip()
    return begins.startswith(("{", "[")) or "\n{" in source.head or "\n[" in source.head
