"""The check of pasted commands finds what could not be pasted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from contend.errors import ContendError
from support.analysed import can_be_pasted
from support.made_runs import Made


@pytest.mark.parametrize(
    "wrong", ["--set nothing=1", "--set victims=nobody", "--frobnicate", "--set measure.blocks=none"]
)
def test_a_command_that_cannot_be_pasted_is_found(tmp_path: Path, wrong: str) -> None:
    made = Made(tmp_path, 12, {"ffmpeg|stress-cpu": 2.0}, {"ffmpeg|stress-cpu": {"run_delay": 1.0}})
    finding = made.analyse().findings[0]
    asked = can_be_pasted(finding, made.scenario)
    assert asked is not None and asked.study == "interference"
    with pytest.raises((ContendError, click.UsageError)):
        can_be_pasted(replace(finding, verify=f"{finding.verify} {wrong}"), made.scenario)
