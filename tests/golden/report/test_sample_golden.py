"""The summary of a recording as it is printed. CONTEND_GOLDEN=write renews it."""

from __future__ import annotations

import os
from pathlib import Path

from contend.report.sample_terminal import lines
from contend.sample.summary import summarise
from support.made_samples import made_sample

HERE = Path(__file__).parent


def test_the_summary_as_printed(tmp_path: Path) -> None:
    text = "\n".join(lines(summarise(made_sample(tmp_path / "run", stacks=True)))) + "\n"
    path = HERE / "sample.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
