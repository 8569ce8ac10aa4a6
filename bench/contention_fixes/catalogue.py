"""The fixes: what their files say of themselves, read without importing them (what they import is not installed here)."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from pathlib import Path

FIXES = Path(__file__).parent / "fixes"
SUPPORT = Path(__file__).parent / "support"


@dataclass(frozen=True, slots=True)
class Fix:
    """One fix: two versions of a project, and the edit of `contend whatif` that comes closest to it."""

    name: str
    project: str
    before: tuple[str, ...]
    """Requirements, as pip takes them; the first is the project's own."""
    after: tuple[str, ...]
    link: str
    """The change, or what the project says of it."""
    did: str
    edit: tuple[str, ...]
    """Options of `contend whatif`; empty where none fits."""
    fits: str
    """exact, nearest or none fits; after a colon, in what the edit differs from the fix."""
    also: tuple[str, ...] = ()
    """Requirements of both versions."""
    build: tuple[str, ...] = ()
    """Constraints on what builds them, where no wheel is there."""
    include: tuple[str, ...] = ()
    """Functions that are traced, for an edit to name them."""

    @property
    def workload(self) -> Path:
        """The program whose storm runs into the contention."""
        return FIXES / f"{self.name}.py"

    def requirements(self, version: str) -> tuple[str, ...]:
        """Of `before` or `after`."""
        return (self.before if version == "before" else self.after) + self.also


def fixes() -> dict[str, Fix]:
    """By name, sorted. Raises ValueError, with the file, for a FIX that is not as `Fix` says."""
    return {path.stem: read(path) for path in sorted(FIXES.glob("*.py"))}


def read(path: Path) -> Fix:
    """The dict literal that a fix's file assigns to FIX."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["FIX"]:
            said = ast.literal_eval(node.value)
            break
    else:
        raise ValueError(f"{path}: no FIX is assigned")
    if unknown := set(said) - {field.name for field in fields(Fix)}:
        raise ValueError(f"{path}: FIX has unknown keys {sorted(unknown)}")
    kind = said["fits"].partition(":")[0]
    if kind not in ("exact", "nearest", "none fits") or (kind == "none fits") == bool(said["edit"]):
        raise ValueError(f"{path}: an edit is given where it is exact or nearest, and only there")
    return Fix(
        path.stem, **{key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}
    )
