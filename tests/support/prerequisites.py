"""A missing prerequisite fails where CI is set, and skips elsewhere with its reason."""

from __future__ import annotations

import os

import pytest


def need(condition: object, reason: str) -> None:
    """Go on when the condition holds; else fail in CI, skip elsewhere."""
    if condition:
        return
    if os.environ.get("CI"):
        pytest.fail(f"missing prerequisite: {reason}")
    pytest.skip(reason)
