"""Roots of other releases: what is kept, and for how long. test_newer_pythons.py makes and enters them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import chroots


def test_what_nobody_used_for_a_month_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    now = 1e9
    for name, days in (("sid-old", 31), ("sid-used", 29), ("venv-old", 40)):
        (chroots.home() / name / "usr").mkdir(parents=True)
        (chroots.home() / f"{name}.lock").touch()
        os.utime(chroots.home() / name, (now, now - days * 86_400))
    chroots.remove_unused(now)
    assert sorted(path.name for path in chroots.home().iterdir()) == ["sid-used", "sid-used.lock"]


def test_what_is_asked_for_is_what_the_project_asks_for() -> None:
    wanted = chroots.requirements(("pytest", "pytest-xdist"))
    assert {line.split(">")[0] for line in wanted} >= {"numpy", "click", "pytest", "pytest-xdist"}
    with pytest.raises(KeyError, match="nonesuch"):
        chroots.requirements(("nonesuch",))
