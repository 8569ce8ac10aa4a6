"""The tests of the tracer under every Python that is on this machine; the counts go to docs/results/interpreters.md.

    make accept                                                    python3.X and python3.Xt on PATH
    CONTEND_TEST_PYTHONS=/opt/3.14/bin/python3.14:… .venv/bin/pytest -m accept tests/accept/test_interpreters.py

About four minutes each on a quiet machine. Each gets a virtual environment in target/interpreters, with what of the
development packages there is as wheels for it: the others are named, and the tests that need them are not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from contend.probes.client import installed
from results.files import save
from support.interpreters import PACKAGE, interpreters

pytestmark = [pytest.mark.accept, pytest.mark.slow]

ROOT = PACKAGE.parent
PLACE = ROOT / "target" / "interpreters"
# Of a browser, of a kernel's tracing or of an image, not of the interpreter.
OTHERS = ("browser", "disks", "beside")
# Without these no test runs at all.
NEEDED = ("pytest", "hypothesis", "pytest-rerunfailures", "click", "PyYAML", "pydantic", "rich", "numpy")
LONGEST_S = 1200


@dataclass
class Counts:
    """Of one interpreter."""

    version: str
    about: str
    missing: list[str]
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    files: dict[str, Counter[str]] = field(default_factory=dict)


def packages() -> Iterator[str]:
    """What the project and its tests install, without versions."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [line for line in told["project"]["dependencies"] if not line.startswith("contend-")]
    wanted = [*needed, *told["dependency-groups"]["dev"]]
    tools = ("mypy", "ruff", "types-PyYAML", "playwright", "altair", "scipy")
    return (name for name in wanted if not name.startswith(tools))


def environment(version: str, python: str) -> tuple[Path, list[str]]:
    """Its virtual environment's Python, and the packages that there are not for it."""
    place = PLACE / version
    inside = place / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", place], check=True)
    missing = []
    for name in packages():
        done = subprocess.run(
            [inside, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", name], capture_output=True
        )
        if done.returncode:
            missing.append(name.split(">")[0])
    assert not set(missing) & set(NEEDED), f"{version}: no test runs without {missing}"
    return inside, missing


def files() -> list[str]:
    """Of the tracer."""
    found = [*ROOT.glob("tests/*/*/test_trace_*.py"), *ROOT.glob("tests/*/*/test_ctrace_*.py")]
    return sorted(
        str(path.relative_to(ROOT)) for path in found if not any(other in path.name for other in OTHERS)
    )


def run(version: str, python: str) -> Counts:
    """All of them, under one."""
    inside, missing = environment(version, python)
    about = subprocess.run(
        [inside, "-c", "import sys; print(sys.version.split('|')[0].strip())"], capture_output=True, text=True
    )
    report = PLACE / f"{version}.xml"
    subprocess.run(
        [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *files()],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(PACKAGE), str(ROOT / "tests"))),
            "CONTEND_PROBE": str(installed()),
        },
        capture_output=True,
        timeout=LONGEST_S,
    )
    counts = Counts(version, about.stdout.strip(), missing)
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = next(
            (child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed"
        )
        name = f"{case.get('classname')}.{case.get('name')}"
        counts.outcomes[outcome] += 1
        counts.files.setdefault(str(case.get("classname")).rpartition(".")[2], Counter())[outcome] += 1
        if outcome in ("failure", "error"):
            counts.failed.append(name)
    return counts


def told(counts: Counts) -> dict[str, Any]:
    """As the results have it."""
    return {
        "version": counts.version,
        "about": counts.about,
        "missing": counts.missing,
        "passed": counts.outcomes["passed"],
        "skipped": counts.outcomes["skipped"],
        "failures": len(counts.failed),
        "failed": counts.failed,
        "files": {
            name: {"passed": of["passed"], "ran": sum(of.values()) - of["skipped"]}
            for name, of in sorted(counts.files.items())
        },
    }


def test_the_tracer_under_every_python() -> None:
    all_counts = [run(version, python) for version, python in sorted(interpreters().items())]
    save("interpreters", {"interpreters": [told(counts) for counts in all_counts]})
    assert {told.version: told.failed for told in all_counts} == {told.version: [] for told in all_counts}
    assert sys.version_info >= (3, 11) and all(told.outcomes["passed"] > 50 for told in all_counts)
