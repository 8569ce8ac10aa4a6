"""Files that were named to one import: all of one tool, all whole. Nothing is made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from contend.errors import BadInput
from contend.imports.cells import ImportedCell, Placed, common, lay_out
from contend.imports.document import Document
from contend.imports.formats import COLLECTORS, Format, named, recognise
from contend.imports.source import Source


@dataclass(frozen=True, slots=True)
class Import:
    """All that is read from the files, of which a run directory is made: format, cells, runs, common settings, notes."""

    format: Format
    sources: tuple[Source, ...]
    versions: tuple[str, ...]  # of the tool, as the files say; empty where none does
    cells: tuple[ImportedCell, ...]
    placed: tuple[Placed, ...]
    settings: dict[str, str]  # those that all runs share
    notes: tuple[str, ...]


def read_files(paths: Sequence[Path], form: str = "", read: Callable[[int], None] | None = None) -> Import:
    """Read every file, as the format `form` or as its content says. Raises BadInput for the first that cannot be read.

    read: called with each number of bytes read; their sum is the files' size or a little more.
    """
    chosen = named(form) if form else None
    sources = tuple(Source.open(path, COLLECTORS, read) for path in paths)
    _once(sources)
    try:
        forms = [chosen or recognise(source) for source in sources]
        for source, recognised in zip(sources, forms, strict=True):
            if recognised is not forms[0]:
                raise BadInput(
                    f"{sources[0].name} is of {forms[0].name}, {source.name} of {recognised.name}",
                    hint="one import is of one tool: contend import them apart, then contend compare",
                )
        documents = [_document(forms[0], source) for source in sources]
    finally:
        for source in sources:
            source.close()
    runs = [run for document in documents for run in document.runs]
    good = [run for run in runs if not run.error]
    if not good:
        why = f": {runs[0].error}" if runs else ""
        raise BadInput(
            f"no run in {', '.join(s.name for s in sources)} gave a result{why}",
            hint="repair what failed there, and measure again",
        )
    cells, placed = lay_out(forms[0].name, [document.runs for document in documents])
    versions = tuple(dict.fromkeys(d.version for d in documents if d.version))
    notes = list(dict.fromkeys(note for document in documents for note in document.notes))
    if len(versions) > 1:
        notes.append(
            f"several versions of {forms[0].name}: {', '.join(versions)}; a difference may be the tool's"
        )
    notes += _differing(cells)
    return Import(forms[0], sources, versions, cells, placed, common(good), tuple(notes))


def _document(form: Format, source: Source) -> Document:
    try:
        return form.read(source)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        # A document of another's may have any shape: whatever it lacks, it is not what that tool writes.
        what = f"nothing is called {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(
            f"{source.name} is not as {form.name} writes it: {what}",
            hint="is it whole, and the tool's own output?",
        ) from error


def _once(sources: Sequence[Source]) -> None:
    seen: dict[str, str] = {}
    for source in sources:
        if source.sha256 in seen:
            raise BadInput(
                f"{seen[source.sha256]} and {source.name} hold the same: one run would count twice",
                hint="name each result once",
            )
        seen[source.sha256] = source.name


def _differing(cells: Sequence[ImportedCell]) -> list[str]:
    """Notes on settings that differ between files and so split their runs into cells."""
    notes = []
    for label in dict.fromkeys(cell.factors.get("victim", "") for cell in cells):
        mine = [c for c in cells if c.factors.get("victim", "") == label]
        if not label or len(mine) < 2:
            continue
        keys = dict.fromkeys(key for cell in mine for key in cell.settings)
        differ = {k: list(dict.fromkeys(c.settings.get(k, "not set") for c in mine)) for k in keys}
        words = [f"{k} ({', '.join(values)})" for k, values in differ.items() if len(values) > 1]
        notes.append(f"{label}: the files differ in {'; '.join(words)}, so each is a cell of its own")
    return notes
