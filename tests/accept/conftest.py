"""Campaigns measure while it is recorded who else uses the host: results.files.save() asks for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from results.record import recording


@pytest.fixture(autouse=True, scope="module")
def recorded() -> Iterator[None]:
    """From the first test of a file to its last."""
    with recording():
        yield
