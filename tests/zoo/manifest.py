"""The description of a program of the zoo: how it was drawn, which edits it can make, what is planted in it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zoo.parts import Change, Culprit


@dataclass(frozen=True, slots=True)
class Manifest:
    """A program. job: pattern of the spans that are jobs, empty where they are marked. jobs: how many there are."""

    seed: int
    population: str
    mechanisms: tuple[str, ...]
    flavour: str
    jobs: int
    job: str
    changes: tuple[Change, ...]
    culprits: tuple[Culprit, ...]
    libraries: tuple[str, ...]
    source: str

    @property
    def key(self) -> str:
        """A name that no other program of a campaign has."""
        return f"{self.population}-{self.seed}"

    def write(self, folder: Path) -> Path:
        """Put `program.py`, the harness and `manifest.json` there; the path of the program."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "program.py"
        program.write_text(self.source, encoding="utf-8")
        harness = Path(__file__).with_name("harness.py").read_text(encoding="utf-8")
        (folder / "harness.py").write_text(harness, encoding="utf-8")
        (folder / "manifest.json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return program


def from_json(data: dict[str, Any]) -> Manifest:
    """The manifest that `asdict` made that of. Raises KeyError, TypeError."""
    changes = tuple(Change(**{**change, "options": tuple(change["options"])}) for change in data["changes"])
    culprits = tuple(Culprit(culprit["lost"], tuple(culprit["names"])) for culprit in data["culprits"])
    known = {
        **data,
        "changes": changes,
        "culprits": culprits,
        "mechanisms": tuple(data["mechanisms"]),
        "libraries": tuple(data["libraries"]),
    }
    return Manifest(**known)
