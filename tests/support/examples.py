"""Examples in docstrings are looked for in files that have some.

To import a module for them, and to look through all that it holds, is most of what the collection of tests takes, in each of
the processes that share them. That every module can be imported is tests/unit/studies/imported/test_imported.py's.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    found = yield
    if any(isinstance(each, DoctestModule) for each in found) and b">>>" not in file_path.read_bytes():
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found
