"""Whom a nice value counts against: sessions of their own, where the kernel makes a group of each, and control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.cli.prove_ import scenario_of
from contend.errors import CannotHonour
from contend.platforms import weighed
from contend.studies.prove import holding
from support.prerequisites import need

pytestmark = pytest.mark.system

OPTIONS = {"url": None, "rate": None, "length": "1m", "by": "nice", "cpus": None, "trial": "1s", "seed": None}


@pytest.fixture
def three() -> Iterator[list[int]]:
    """Two processes of one session, and one of another."""
    words = [
        sys.executable,
        "-c",
        "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print(flush=True); time.sleep(60)",
    ]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        (child,) = Path(f"/proc/{started[0].pid}/task/{started[0].pid}/children").read_text().split()
        yield [started[0].pid, int(child), started[1].pid]
    finally:
        for process in started:
            os.killpg(process.pid, 9)
            process.communicate()


def test_sessions_are_apart_where_the_kernel_groups_them(three: list[int]) -> None:
    first, child, other = three
    assert weighed.apart([first], [child]) is None
    need(
        weighed.ENABLED.exists() and weighed.ENABLED.read_text().strip() == "1", "a kernel with autogroups on"
    )
    if weighed.group_of(first).startswith("/autogroup"):
        groups = weighed.apart([first], [other])
        assert groups is not None and len(set(groups)) == 2
        with pytest.raises(CannotHonour, match="means nothing to"):
            holding.switches(scenario_of(str(other), (str(first),), **OPTIONS))
    assert weighed.group_of(2**22 + 1) == ""
