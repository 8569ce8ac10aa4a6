"""Functions that remove what a ledger names, by kind. Each room has those of its kinds; `cli` puts them together.

Nothing here knows of clouds, the user's services or fleets: `contend.engine.removal` adds those of a run's programs, and
`contend.fleet.removal` those of fleets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contend.errors import ContendError, HostFailed
from contend.platforms.confinement import OfRun
from contend.text.shape import Shape

Row = Mapping[str, Any]
Remover = Callable[[str, Row, OfRun], bool]
"""(name, row, whose) → whether it was there. Raises ContendError, OSError where it stays; others for a damaged row."""


@dataclass(frozen=True, slots=True)
class Removed(Shape):
    """The result of removing one thing. `was_there` is False when it had gone already."""

    kind: str
    name: str
    was_there: bool
    why: str = ""  # why it is still there; it stays in the ledger then
    whose: str = ""  # of what no ledger told of: the run, and what became of it


@dataclass(frozen=True, slots=True)
class Made:
    """Things that programs of a run make, by how their kinds begin: removed together, once the run's processes have ended.

    before: what is to end first, while they still run.
    """

    prefix: str
    remove: Callable[[Sequence[Row]], Iterable[Removed]]
    before: Callable[[Sequence[Row]], None] = lambda rows: None


@dataclass(frozen=True, slots=True)
class Removers:
    """Those of some rooms: `of_kind` what is removed one by one, newest first; `made` what is removed after that."""

    of_kind: Mapping[str, Remover] = field(default_factory=dict)
    made: tuple[Made, ...] = ()

    def __or__(self, other: Removers) -> Removers:
        """Those of both."""
        return Removers({**self.of_kind, **other.of_kind}, (*self.made, *other.made))

    def is_made(self, kind: str) -> bool:
        return any(kind.startswith(group.prefix) for group in self.made)

    def one(self, kind: str, name: str, row: Row, of: OfRun) -> Removed:
        """Remove one thing that a row of a ledger, or one like it, tells of. It stays, with the reason, where the name is
        none that a thing of that kind and run can have."""
        remover = self.of_kind.get(kind)
        if remover is None:
            return Removed(kind, name, was_there=True, why=unknown(kind).message)
        return attempt(kind, name, lambda: remover(name, row, of))


def attempt(kind: str, name: str, remove: Callable[[], bool]) -> Removed:
    """Remove a thing by `remove`, which returns whether it was there. The error that it raises is why the thing stays."""
    try:
        return Removed(kind, name, was_there=remove())
    except ContendError as error:
        return Removed(kind, name, was_there=True, why=error.message)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:  # of a damaged row
        return Removed(kind, name, was_there=True, why=str(error))


def unknown(kind: str) -> HostFailed:
    """Make the error for a kind that no remover knows."""
    return HostFailed(f"contend does not know how to remove a {kind}", hint="a newer contend made it")
