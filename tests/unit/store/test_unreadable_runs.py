"""A file of a run that this user may not read is one clear note, or one clear error; the rest is read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support import nobody
from support.damaged_shelf import shelf

NOBODY = 65534

# As root nothing is refused: the verbs run once as root, so that everything is imported, then as nobody.
CHILD = """
import json, os, sys
from contend.store.damage import noting
from support.damaged import tried
whole, locked, state = sys.argv[1:4]
verbs = json.loads(sys.argv[4])
os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = state
named = [[w.replace("RUN", whole) for w in words] for words in verbs]
for words in named:
    tried(words)
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
ends = [tried([w.replace("RUN", locked) for w in words]) for words in verbs]
print(json.dumps([[e.code, e.wrong, e.err] for e in ends]))
""".replace("NOBODY", str(NOBODY))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def place() -> Iterator[Path]:
    """Where nobody may go too, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="contend-locked-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(place: Path, run: Path, locked: str, *verbs: list[str]) -> list[tuple[int, str, str]]:
    """Exit code, what was wrong, and the messages of each verb over a copy of which one file is locked."""
    for name in ("whole", "locked"):
        shutil.copytree(run, place / name)
    for path in (place / "locked", *(place / "locked").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.chown(path, NOBODY, NOBODY)
    (place / "locked" / locked).chmod(0)
    state = place / "state"
    state.mkdir()
    state.chmod(0o777)
    words = [str(place / "whole"), str(place / "locked"), str(state), json.dumps(verbs)]
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [*nobody.laid_open(place), sys.executable, "-c", CHILD, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, tests])},
    )
    assert done.returncode == 0, done.stderr
    return [(code, wrong, err) for code, wrong, err in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.parametrize(
    ("kind", "file", "code"),
    [
        ("interference", "trials.ndjson", 0),
        ("interference", "environment.json", 0),
        ("interference", "ledger.ndjson", 0),
        ("interference", "series", 0),
        ("interference", "plan.json", 2),
        ("interference", "scenario.yaml", 2),
        ("storm", "outputs", 0),
        ("sample", "sample.json", 2),
        ("traced", "traces", 0),
        ("fleet", "hosts", 0),
        ("fleet", "hosts/a/plan.json", 0),
    ],
)
def test_what_is_not_to_be_read_is_said(
    runs: Mapping[str, Path], place: Path, kind: str, file: str, code: int
) -> None:
    verbs = [["report", "RUN", "--json"], *([["hunt", "RUN"]] if kind == "traced" else [])]
    found = as_nobody(place, runs[kind], file, *verbs)
    for ended, wrong, err in found:
        assert not wrong, err
        assert ended in {code, 2}, err
    ended, _, err = found[0]
    assert ended == code, err
    assert "Permission denied" in err or "permission" in err.lower(), err
    assert Path(file).name in err
