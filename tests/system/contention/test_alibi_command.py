"""The alibi of a command beside its host's, for real: a command that shares its CPU, and one that only sleeps."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.command_line import Home
from support.prerequisites import need

pytestmark = [pytest.mark.slow, pytest.mark.alone]

BURN = "while True: pass"


@contextmanager
def burning(cpu: int) -> Iterator[None]:
    """A neighbour that takes what it can get of one CPU."""
    need(shutil.which("taskset"), "taskset")
    burner = subprocess.Popen(("taskset", "-c", str(cpu), sys.executable, "-c", BURN))
    try:
        yield
    finally:
        burner.kill()
        burner.wait()


def party(contend: Home, *command: str, code: int = 0) -> dict[str, Any]:
    done = contend("sample", "-i", "250ms", "-o", "made", "-q", "--", *command).fine(code)
    summary = json.loads((contend.path / "made/summary.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = summary["party"]
    assert found["scope"] == "the command"
    # The same on the terminal, wrapped, and on the page.
    said = " ".join(done.err.split())
    assert " ".join(found["text"].split()) in said, (found["text"], said)
    shown = html.unescape((contend.path / "made/report.html").read_text(encoding="utf-8"))
    assert found["text"].startswith("The command") and found["text"] in shown
    return found


def test_a_command_that_shares_its_cpu_waited_for_it(contend: Home) -> None:
    with burning(0):
        found = party(contend, "taskset", "-c", "0", "timeout", "4", sys.executable, "-c", BURN, code=124)
    assert found["verdict"] == "cpu", found["text"]


def test_a_command_that_sleeps_was_not_held_up_whatever_its_neighbours_do(contend: Home) -> None:
    with burning(0):
        found = party(contend, "sleep", "4")
    # Where others keep disks busy it may not be known: a shell's cgroup is not the command's own.
    assert found["verdict"] == "idle" or "no cgroup of its own" in found["text"], found["text"]
    assert not found["saturated"]
