"""The check of words in names and docstrings: `scripts/words.py`, which `make check` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "words.py"


def check(*files: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, files)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_package_has_no_more_of_them_than_are_known() -> None:
    assert check() == (0, "")


def test_what_is_new_is_named_with_its_line_and_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "crowds.py"
    path.write_text(
        '"""Of some."""\n\n\nclass Party:\n    told_ns: int\n\n    def stood(self, place: str) -> None:\n'
        '        """All."""\n        self.asked = found = place\n'
    )
    code, text = check(path)
    assert code == 1
    for line, name in [(1, "crowds"), (4, "Party"), (5, "told_ns"), (7, "stood"), (7, "place"), (9, "asked")]:
        assert f"{path}:{line}: {name}\n" in text
    assert f"{path}:1: Of some." in text and f"{path}:8: All." in text and f"{path}:9: found" in text
    assert "hint: neighbours" in text


def test_english_is_spared(tmp_path: Path) -> None:
    path = tmp_path / "placement.py"
    path.write_text(
        '"""Whatever was found, in texts."""\n\nnot_found = "it said: not found"\n\n\n'
        'def replace(foundation: int) -> str:\n    """Give the placement of one of them."""\n    return not_found\n'
    )
    assert check(path) == (0, "")
