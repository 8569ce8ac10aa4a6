"""Programs that know nothing of it, run by `contend trace`."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

from support import quick_start
from support.ctrace_events import BEGIN, END, Trace, read_all

CONTEND = [sys.executable, "-c", "from contend.cli import main; main()", "trace"]
PATH = os.pathsep.join(filter(None, sys.path))


def traced(
    directory: Path,
    code: str,
    *options: str,
    arguments: tuple[str, ...] = (),
    python: str = sys.executable,
    path: str = PATH,
    timeout: float = 60,
) -> list[Trace]:
    """Run it in that directory, to its end and without a fault; what its processes recorded, its own first."""
    program = directory / "program.py"
    program.write_text(textwrap.dedent(code))
    # The path is for the program: contend itself has it anyway.
    done = quick_start.run(
        ["trace", "-o", "t", *options, "--", python, "program.py", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "contend.trace:" not in done.stderr, done.stderr
    found = read_all(directory / "t")
    assert all(not told.torn and not told.lost for told in found)
    return sorted(found, key=lambda told: told.parent in {other.pid for other in found})


def said(found: list[Trace]) -> str:
    """All names and arguments in them, for what must not be there."""
    told = [f"{event.name} {event.args}" for trace in found for event in trace.events]
    tracks = [track.name for trace in found for track in trace.tracks.values()]
    locks = [f"{lock.name} {lock.site}" for trace in found for lock in trace.locks.values()]
    return "\n".join([*told, *tracks, *locks])


def begun(told: Trace, name: str) -> list[dict[str, object]]:
    """Arguments of the spans of that name, of begin and end, in order of their begins."""
    open_: dict[int, list[dict[str, object]]] = {}
    found = []
    for event in told.events:
        if event.kind == BEGIN:
            args = dict(event.args)
            open_.setdefault(event.track, []).append(args)
            if event.name == name:
                found.append(args)
        elif event.kind == END:
            open_[event.track].pop().update(event.args)
    return found
