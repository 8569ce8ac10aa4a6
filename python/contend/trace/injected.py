"""`contend trace` inside of the traced program, before its first line."""

from __future__ import annotations

import json
import os

from contend.trace import patches
from contend.trace.include import Include
from contend.trace.recording import flush, start_as


def begin(text: str) -> None:
    """Patch, then record, as the JSON that `contend trace` put into the environment says. Children inherit it."""
    options = json.loads(text)
    # First: what the imports of a recording bring in is made with plain locks, what the program brings in is not.
    start_as(options)
    patches.use_digests(options)
    patches.apply()
    Include(options["include"], options["exclude"]).install()
    _record_before_exit()


def _record_before_exit() -> None:
    """os._exit ends a process without a word: daemons' parents and workers of pre-forking servers do it."""
    leave = os._exit

    def _exit(status: int) -> None:
        flush()
        leave(status)

    os._exit = _exit  # type: ignore[assignment]
