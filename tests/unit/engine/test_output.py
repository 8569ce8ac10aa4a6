"""What a run makes of a generator's or a tool's last words."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.engine.output import last_words
from contend.errors import BadInput, HostFailed
from contend.workloads.generators.verbs import failed


@pytest.mark.parametrize(
    ("wrote", "words"),
    [
        ("one\ntwo\n\n", "two"),
        ("Traceback\nerror: no such key\n", "no such key"),
        ("odd\nerror: no such key\n  hint: name one\n", "no such key (name one)"),
        ("  hint: alone\n", "hint: alone"),
        ("\n", "(no output)"),
    ],
)
def test_last_words(tmp_path: Path, wrote: str, words: str) -> None:
    (said := tmp_path / "said").write_text(wrote, encoding="utf-8")
    assert last_words(said) == words
    assert last_words(tmp_path / "absent", said) == words


@pytest.mark.parametrize("error", [BadInput("no such key", hint="name one"), HostFailed("full")])
def test_what_a_generator_tells_is_read_back(
    error: BadInput | HostFailed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failed(error) == error.exit_code
    (said := tmp_path / "said").write_text(capsys.readouterr().err, encoding="utf-8")
    assert last_words(said) == (f"{error.message} ({error.hint})" if error.hint else error.message)
