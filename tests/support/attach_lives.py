"""A program that is attached to and let go again and again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from contend.errors import ContendError
from contend.trace.attach import Session
from contend.trace.launch import Options
from support.attach_targets import Target


def life(child: Target, directory: Path, draw: random.Random, attaches: int) -> dict[str, Any]:
    """Attached to and let go so many times: how long it stood still, what was refused, how it ended if it did."""
    told: dict[str, Any] = {"stopped_ns": [], "errors": [], "ended": None}
    for number in range(attaches):
        session = Session(child.pid, Options(directory / f"t{number}", include=("__main__:*",)))
        try:
            begun = session.begin()
            session.wait(draw.random() * 0.05)
            session.end()
            told["stopped_ns"].append(begun.stopped_ns)
        except ContendError as error:
            told["errors"].append(str(error))
        finally:
            session.close()
        if not child.goes_on(1):
            told["ended"] = (child.process.poll(), (directory / "stderr").read_text()[-2000:])
            break
    return told
