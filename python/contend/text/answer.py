"""The one JSON document that every verb prints with `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from contend.text.shape import Shape, Through, plain

SCHEMA_VERSION: Literal[2] = 2
"""2: every verb's document has one form. What stood in the documents of version 1 is their `data`."""
READ = (1, SCHEMA_VERSION)
Verdict = Literal["done", "failed", "incomplete", "crossed", "undecided"]
VERDICTS: Mapping[int, Verdict] = {0: "done", 1: "failed", 3: "incomplete", 4: "crossed", 5: "undecided"}
"""By exit code. After bad input, code 2, there is no document."""


@dataclass(frozen=True, slots=True)
class Answer(Shape):
    """The document that a verb of contend prints with --json.

    >>> Answer("list", "2 probes", {"probes": {"host": "…", "snapshot": "…"}}).to_json()["verdict"]
    'done'
    """

    schema_version: Literal[2] = field(default=SCHEMA_VERSION, init=False)
    verb: Annotated[str, "the command, without its options: run, fleet status"]
    verdict: Annotated[Verdict, "how it ended, as the exit code says: 0, 1, 3, 4, 5"] = field(
        default="done", kw_only=True
    )
    headline: Annotated[str, "the answer in a sentence or two"]
    data: Annotated[Any, Through(plain), "what the verb found: its own schema is named below"]


def data_of(document: Any) -> Any:
    """Return the data of a verb's document: of version 1 the document itself.

    >>> data_of({"schema_version": 1, "edits": []}), data_of({"schema_version": 2, "verb": "whatif", "data": {"edits": []}})
    ({'schema_version': 1, 'edits': []}, {'edits': []})
    """
    if isinstance(document, Mapping) and document.get("schema_version") == SCHEMA_VERSION:
        return document.get("data")
    return document
