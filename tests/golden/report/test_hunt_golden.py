"""A hunt as it is printed. CONTEND_GOLDEN=write renews it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from contend.contention.hunt import Batch, hunt
from contend.contention.hunting.rows import Tables
from contend.report.hunt_terminal import print_hunt
from support.made_hunts import batch, storm

HERE = Path(__file__).parent
NO_ALIBI = "no recording of the host beside the trace: `contend trace --sample` makes one"


def of(tables: Tables) -> Batch:
    return Batch(tables.source, (tables,), tables, None, NO_ALIBI)


@pytest.mark.parametrize(
    ("name", "batches"),
    [("hunt", (storm(), storm(0.3, "after"))), ("hunt-nothing", (batch(),))],
    ids=["storm", "nothing"],
)
def test_a_hunt_as_printed(name: str, batches: tuple[Tables, ...]) -> None:
    told = io.StringIO()
    first, *others = map(of, batches)
    print_hunt(hunt(first, others), Console(file=told, width=120, highlight=False, soft_wrap=True))
    path = HERE / f"{name}.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        path.write_text(told.getvalue(), encoding="utf-8")
    assert told.getvalue() == path.read_text(encoding="utf-8")
