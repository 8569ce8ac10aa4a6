"""Counts the instructions of one run of a command: `instructions --variant NAME --out FILE -- COMMAND…`.

By the processor's counters (perf), or where there are none by valgrind, which takes some fifty times as long. Only what runs
in user mode counts, children too. Writes JSON: variant, count (null where nobody could count), by (perf, valgrind, or the
reason).
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_REFS = re.compile(r"I\s+refs:\s+([\d,]+)")


def main(arguments: Sequence[str]) -> int:
    """Count and return the exit code."""
    parser = argparse.ArgumentParser(prog="instructions", description="Count a command's instructions.")
    parser.add_argument("--variant", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--in", dest="directory", type=Path, default=Path())
    parser.add_argument("--before", default="", help="a command to run before, which is not counted")
    parser.add_argument("--after", default="")
    parser.add_argument("command", nargs="+", help="after --")
    given = parser.parse_args(arguments)
    try:
        if given.before:
            subprocess.run(shlex.split(given.before), cwd=given.directory, check=True)
        try:
            count, by = counted(given.command, given.directory)
        finally:
            if given.after:
                subprocess.run(shlex.split(given.after), cwd=given.directory, check=True)
    except subprocess.CalledProcessError as failed:
        print(f"error: the command failed with exit status {failed.returncode}", file=sys.stderr)
        return 1
    text = json.dumps({"variant": given.variant, "count": count, "by": by})
    given.out.write_text(text, encoding="utf-8")
    return 0


def counted(command: Sequence[str], directory: Path) -> tuple[float | None, str]:
    """How many, and by what, or why nobody could. Raises CalledProcessError for a command that fails."""
    with tempfile.TemporaryDirectory(prefix="contend-instructions-") as folder:
        if shutil.which("perf") is not None:
            count = _perf(command, directory, Path(folder) / "perf")
            if count is not None:
                return count, "perf"
        if shutil.which("valgrind") is not None:
            return _valgrind(command, directory, Path(folder)), "valgrind"
    return None, "this processor has no counters that perf can read here, and valgrind is not installed"


def _perf(command: Sequence[str], directory: Path, out: Path) -> float | None:
    """None where there is no such counter: then the command has run for nothing."""
    perf = ["perf", "stat", "-x", ",", "-e", "instructions:u", "-o", str(out)]
    if (
        subprocess.run([*perf, "--", "true"], capture_output=True, check=False).returncode
        or _of_perf(out) is None
    ):
        return None
    subprocess.run([*perf, "--", *command], cwd=directory, capture_output=True, check=True)
    return _of_perf(out)


def _of_perf(out: Path) -> float | None:
    for line in out.read_text(encoding="utf-8").splitlines():
        value, *rest = line.split(",")
        if len(rest) > 1 and rest[1].startswith("instructions"):
            return float(value) if value.strip().isdecimal() else None
    return None


def _valgrind(command: Sequence[str], directory: Path, folder: Path) -> float:
    logs = folder / "log.%p"
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes", f"--log-file={logs}"]
    tool += ["--cachegrind-out-file=/dev/null"]
    subprocess.run([*tool, "--", *command], cwd=directory, capture_output=True, check=True)
    counts = [
        int(match[1].replace(",", ""))
        for log in folder.glob("log.*")
        if (match := _REFS.search(log.read_text(encoding="utf-8", errors="replace")))
    ]
    return float(sum(counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
