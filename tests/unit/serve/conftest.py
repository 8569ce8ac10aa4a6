"""What the tests of `contend serve` share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.made_runs import Made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with its findings, to be copied."""
    made = Made(tmp_path_factory.mktemp("base"), 6, {"ffmpeg|stress-cpu": 2.0}, {})
    made.run.write_json("findings.json", made.analyse().to_json())
    made.run.close()
    return made.run.path
