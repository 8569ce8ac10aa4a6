"""Several runs, each as `contend report` showed it."""

from __future__ import annotations

from collections.abc import Mapping

from results.files import Data
from results.pages import report


def body(data: Mapping[str, Data]) -> str:
    """One after another."""
    return "\n\n".join(f"## {name}\n\n{report.body(d)}" for name, d in data.items())


beside = report.beside
