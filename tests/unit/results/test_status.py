"""What makes a result out of date, and what does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from results import closure, files, recipes, status
from results.closure import Blobs
from results.meaning import parts

PYTHON = '"""Doc."""\nimport os\nLIMIT = 3\n\ndef f(x):\n    """Why."""\n    return x + LIMIT  # so\n'


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ('"""Other."""\nfrom os import path\nLIMIT = 3\ndef f(x): return (x + LIMIT)\n', True),
        ("def f(x):\n    return x + LIMIT\nLIMIT = 3\n", True),
        (PYTHON.replace("LIMIT = 3", "LIMIT = 4"), False),
        (PYTHON.replace("x + LIMIT", "x - LIMIT"), False),
    ],
)
def test_the_meaning_of_python(other: str, same: bool) -> None:
    assert (parts("a.py", PYTHON) == parts("b.py", other)) is same


RUST = """//! Doc.
use std::fmt;
/// Of x.
#[inline]
pub fn f(x: u32) -> char { if x > 3 { '}' } else { 'a' } } // so
const TEXT: &str = "a // b";
#[cfg(test)]
mod tests { fn g() {} }
"""


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (RUST.replace("// so", "/* or so */").replace("/// Of x.\n", ""), True),
        (RUST.replace("fn g() {}", "fn g() { panic!() }"), True),
        (RUST.replace("x > 3", "x > 4"), False),
        (RUST.replace("a // b", "a // c"), False),
        (RUST.replace("'a'", "'b'"), False),
    ],
)
def test_the_meaning_of_rust(other: str, same: bool) -> None:
    assert (parts("a.rs", RUST) == parts("b.rs", other)) is same


def test_the_meaning_of_yaml() -> None:
    assert parts("a.yaml", "a: 1  # one\nb: [2]\n") == parts("a.yaml", "b:\n- 2\na: 1\n")
    assert parts("a.yaml", "a: 1\n") != parts("a.yaml", "a: 2\n")


FILES = {
    "python/p/__init__.py": "",
    "python/p/main.py": "from p import helper\nfrom .deep.part import g\ndef main(): return helper.f() + g()\n",
    "python/p/helper.py": "def f(): return 1\n",
    "python/p/deep/__init__.py": "",
    "python/p/deep/part.py": "def g():\n    from p.late import h\n    return h()\n",
    "python/p/late.py": "def h(): return 2\n",
    "python/p/beside.py": "def never(): return 3\n",
}


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str | None]], str]:
    """Commits files and says the commit; None removes one."""
    monkeypatch.setattr(closure, "ROOT", tmp_path)
    monkeypatch.setattr(closure, "CACHE", tmp_path / "cache/known.json")
    (tmp_path / "cache").mkdir()
    git("init", "-q", at=tmp_path)

    def commit(files: dict[str, str | None]) -> str:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
        git("add", "-A", "python", at=tmp_path)
        git(
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
            at=tmp_path,
        )
        return git("rev-parse", "--short", "HEAD", at=tmp_path)

    return commit


def git(*words: str, at: Path) -> str:
    return subprocess.run(["git", *words], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


def changed(then: str) -> dict[str, int]:
    blobs = Blobs.load()
    found = [closure.closure(["python/p/main.py"], closure.tree(at), blobs) for at in (then, "")]
    blobs.keep()
    return status.gone(*found)


def test_what_is_imported_counts_and_nothing_else(history: Callable[[dict[str, str | None]], str]) -> None:
    then = history(FILES)
    found = closure.closure(["python/p/main.py"], closure.tree(then), Blobs())
    assert set(found) == set(FILES) - {"python/p/beside.py"}
    history({"python/p/beside.py": "def never(): return 4\n"})
    assert changed(then) == {}
    history({"python/p/late.py": '"""Said."""\n\n\ndef h():\n    """Two."""\n    return 2  # two\n'})
    assert changed(then) == {}
    history({"python/p/late.py": "def h(): return 5\n"})
    assert changed(then) == {"python/p/late.py": 1}


def test_a_move_is_no_change(history: Callable[[dict[str, str | None]], str]) -> None:
    then = history(FILES)
    moved = {"python/p/helper.py": None, "python/p/moved.py": "def f(): return 1\n"}
    history(
        moved
        | {
            "python/p/main.py": FILES["python/p/main.py"].replace(
                "from p import helper", "import p.moved as helper"
            )
        }
    )
    assert changed(then) == {}


def test_changes_that_are_not_committed_count(
    history: Callable[[dict[str, str | None]], str], tmp_path: Path
) -> None:
    then = history(FILES)
    (tmp_path / "python/p/helper.py").write_text("def f(): return 9\n")
    assert changed(then) == {"python/p/helper.py": 1}


def test_a_commit_that_is_not_there(history: Callable[[dict[str, str | None]], str]) -> None:
    history(FILES)
    with pytest.raises(LookupError, match="commit 0123456 is not in this history"):
        closure.tree("0123456")


def test_entry_points_of_this_tree() -> None:
    blobs, here = Blobs(), closure.tree()
    found = closure.closure(["bench/known/answers.py"], here, blobs)
    assert "python/contend/stats/signed_rank.py" in found and "python/contend/engine/run.py" not in found
    for name, recipe in recipes.recipes().items():
        assert all(here.under(entry) for entry in recipe.entry), name


def test_a_status_without_a_commit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = files.load("limits")
    monkeypatch.setattr(files, "load", lambda _: kept | {"made": kept["made"] | {"commit": None}})
    (found,) = status.statuses(["limits"])
    assert (found.state, found.why) == ("unknown", "its commit was not recorded")
    assert "limits" in status.shown([found]) and not found.fine
