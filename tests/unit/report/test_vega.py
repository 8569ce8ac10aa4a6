"""The runtime of charts is bundled once, and what is kept of it is not trusted blindly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contend.report.vega import bundled, vega_runtime

Made = list[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """An empty cache, and what is bundled: each time another text."""
    texts: Made = []

    def bundle(script: str) -> str:
        texts.append(f"{script} // </script {len(texts)}")
        return texts[-1]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("contend.report.vega.bundled", bundle)
    vega_runtime.cache_clear()
    yield texts
    vega_runtime.cache_clear()


def again() -> str:
    """As the next process has it."""
    vega_runtime.cache_clear()
    return vega_runtime()


def test_it_is_bundled_once_and_closes_no_script(made: Made, tmp_path: Path) -> None:
    first = vega_runtime()
    assert first == "window.vegaEmbed = vegaEmbed; // <\\/script 0"
    assert again() == first
    assert len(made) == 1
    (kept,) = (tmp_path / "contend").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.chmod(0o666),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["torn", "empty", "anybody's", "a directory"],
)
def test_what_cannot_be_trusted_is_not_used(
    made: Made, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    vega_runtime()
    (kept,) = (tmp_path / "contend").iterdir()
    spoil(kept)
    assert again().endswith("1")
    assert len(list((tmp_path / "contend").iterdir())) == 1, "no half of it is left beside it"


def test_without_a_place_it_is_bundled_each_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert vega_runtime().endswith("0")
    assert again().endswith("1")


def test_nothing_of_the_working_directory_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be anybody's: contend is started in it as root."""
    for name in ("vl_convert", "encodings", "warnings"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\nraise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    assert len(bundled("window.vegaEmbed = vegaEmbed;")) > 500_000
    assert not (tmp_path / "ran").exists()


def test_the_real_one_is_the_same_when_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = again()
    assert len(first) > 500_000 and "</script" not in first
    assert again() == first
