"""The check of pasted commands finds what could not be pasted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from contend.errors import ContendError
from support import pasted_commands
from support.analysed import can_be_pasted
from support.made_runs import Made


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("contend watch /a.service --by cgroup --for 30s", ""),
        ("contend whatif traces/a --job 'GET *' --hold db=0.5", ""),
        ("contend run noisy-neighbour --set app=a --frobnicate", "--frobnicate"),
        ("contend hunt --limit", "--limit"),
        ("contend verify runs/x", "no verb"),
    ],
)
def test_a_command_is_parsed_as_the_command_line_would(command: str, why: str) -> None:
    said = pasted_commands.wrong(command)
    assert why in said and bool(said) == bool(why)


@pytest.mark.parametrize(
    "wrong", ["--set nothing=1", "--set victims=nobody", "--frobnicate", "--set measure.blocks=none"]
)
def test_a_command_that_cannot_be_pasted_is_found(tmp_path: Path, wrong: str) -> None:
    made = Made(tmp_path, 12, {"ffmpeg|stress-cpu": 2.0}, {"ffmpeg|stress-cpu": {"run_delay": 1.0}})
    finding = made.analyse().findings[0]
    asked = can_be_pasted(finding, made.scenario)
    assert asked is not None and asked.study == "interference"
    with pytest.raises((ContendError, click.UsageError, AssertionError)):
        can_be_pasted(replace(finding, verify=f"{finding.verify} {wrong}"), made.scenario)
