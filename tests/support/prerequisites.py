"""What a test needs and a machine may lack. Nothing is skipped without being told (support/skips.py).

`need` and the mark `needs` are for what a machine of the tests must have: where CI is set a missing one fails the test,
elsewhere it skips it, with its reason. `cannot` is for the few that no such machine can run: they are listed here, each with
its reason.
"""

from __future__ import annotations

import enum
import os
from typing import NoReturn

import pytest

SAID = "cannot run here, because "


class Cannot(enum.StrEnum):
    """Why a test cannot run on the machines that the tests are made for."""

    OPEN_VSWITCH = "Open vSwitch's package brings a service that starts with the machine from then on"
    PYTHON_3_14 = (
        "Debian 12 and 13 have no CPython 3.14 (system/project/test_newer_pythons runs it under that of sid)"
    )
    OWN_TESTS = "Debian's Python comes without its own tests"
    CAMPAIGNS = "what the largest workloads need is installed for campaigns only (make accept)"
    NFS = "no kernel of these machines serves NFS (testbed/hosts runs it in guests)"
    HOST_CHANGES = "others on this host left no moment for it"


def need(condition: object, reason: str) -> None:
    """Go on when the condition holds; else fail in CI, skip elsewhere."""
    if condition:
        return
    if os.environ.get("CI"):
        pytest.fail(f"missing prerequisite: {reason}")
    pytest.skip(reason)


def cannot(why: Cannot, more: str = "") -> NoReturn:
    """Skip this test, in CI too."""
    pytest.skip(f"{SAID}{why.value}{f': {more}' if more else ''}")


def need_blame() -> None:
    """BPF programs that charge waits to who caused them."""
    from contend.errors import HostFailed
    from contend.probes.client import ProbeProcess

    need(os.geteuid() == 0, "BPF programs need root")
    try:
        ProbeProcess({"interval_ms": 1000, "blame": {"by": "process"}}).stop()
    except HostFailed as error:
        need(False, f"no blame here: {error.message}")
