"""JSON documents that trials of a run left in its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from contend.errors import BadInput
from contend.store.damage import json_object, note
from contend.store.trial_rows import Row


def documents(
    run: Path, rows: Iterable[Row], name: str, wrong: Callable[[Any], str]
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Read NAME in RUN/outputs/TRIAL of each counted trial that gave a result, where it is whole: its row, and the
    document."""
    for row in rows:
        if row["status"] != "ok" or row["phase"] != "counted":
            continue
        path = run / "outputs" / f"{int(row['trial']):06d}" / name
        try:
            document = json_object(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except BadInput as error:
            note(path, "", error.message)
            continue
        if why := wrong(document):
            note(path, "", why)
        else:
            yield row, document
