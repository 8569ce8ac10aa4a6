"""`contend ab --randomise layout`: programs that are linked in other orders, and instructions as a second witness."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from contend.workloads.generators.instructions import counted
from support.command_line import Home
from support.prerequisites import need
from support.turns import alone

PART = "int part_{0}(int n) {{ volatile int sum = 0; for (int k = 0; k < n; k++) sum += k * {1}; return sum; }}\n"
MAIN = """\
int part_a(int); int part_b(int); int part_c(int);
int main(void) {{ return (part_a({0}) + part_b({0}) + part_c({0})) & 0; }}
"""
MAKEFILE = """\
program: main.o a.o b.o c.o
\t$(CC) -o $@ $^
"""


def git(tree: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(tree), *who, *words], check=True, capture_output=True)


def repository(tree: Path) -> None:
    """Two revisions of a program, the second of which does twice as much."""
    tree.mkdir()
    git(tree, "init", "-q")
    (tree / "Makefile").write_text(MAKEFILE)
    for number, name in enumerate("abc"):
        (tree / f"{name}.c").write_text(PART.format(name, number))
    for rounds in (3_000_000, 6_000_000):
        (tree / "main.c").write_text(MAIN.format(rounds))
        git(tree, "add", ".")
        git(tree, "commit", "-qm", str(rounds))


def test_revisions_are_linked_in_several_orders_and_their_instructions_counted(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    for program in ("gcc", "make", "git", "valgrind"):
        need(shutil.which(program), program)
    repository(tmp_path / "tree")
    home, sums = Home(tmp_path / "tree"), tmp_path / "sums"
    words = ["--rev", "HEAD~1", "--rev", "HEAD", "--build", f"make -s && md5sum program >> {sums}"]
    words += ["--randomise", "layout", "--instructions", "--blocks", "8", "--most", "8", "--target", "none"]
    with alone(pytestconfig):
        home("ab", *words, "--", "./program", timeout=300).fine()
    lines = [line.split()[0] for line in sums.read_text().splitlines()]
    assert len(lines) == 8
    # Of each revision four builds: the usual order, and three by chance, of which two may be the same.
    assert len(set(lines[:4])) > 1 and len(set(lines[4:])) > 1, "the linker had its objects in one order"
    run = home.the_run()
    rows = [json.loads(line) for line in (run / "trials.ndjson").read_text().splitlines()]
    assert len({row["layout"] for row in rows if "layout" in row}) > 1
    analysis = json.loads((run / "findings.json").read_text())
    witnesses = analysis["compare"]
    assert witnesses["layouts"]["linked"] and witnesses["layouts"]["count"] == 4
    counts = {one["variant"]: one["count"] for one in witnesses["instructions"]}
    assert 1.9 < counts["HEAD"] / counts["HEAD~1"] < 2.05
    assert "more instructions" in analysis["answer"]


def test_instructions_are_the_same_each_time(tmp_path: Path) -> None:
    need(shutil.which("valgrind"), "valgrind")
    counts = [counted(["true"], tmp_path) for _ in range(2)]
    assert counts[0][0] and counts[1][0]
    assert counts[0][1] == counts[1][1]
    assert counts[0][0] == pytest.approx(counts[1][0], rel=0.01)
