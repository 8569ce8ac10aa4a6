"""The seam between a storm and whatever makes its machines: a cloud's API, or the engines of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contend.clouds.storm.stamps import Track
    from contend.clouds.storm.storm import Happened


class Machines(Protocol):
    """The machines of one storm. The storm calls each of these once, in this order, but create and delete once for each
    machine and from several threads; from `announce` on it always ends with `clear`.
    """

    @property
    def awaited(self) -> str:
        """Name of the state that a storm waits for: ACTIVE, served. Its moment is that of the state stamps.ACTIVE."""

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases on the way there, in order: the first ends when a request is accepted, the second when a state is
        seen."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of requests, and of what went wrong with them."""

    def announce(self, tracks: Sequence[Track]) -> None:
        """Write the machines to the ledger; it is on the disk when this returns."""

    def count_cpu(self) -> Callable[[], dict[str, float]]:
        """Begin to count CPU time of those that do the work; what is returned ends it: seconds by role, most first."""

    def create(self, track: Track) -> None:
        """Request one machine and wait for the answer: sets `accepted_ns` and `id`, or `problem`."""

    def watch(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        """Observe all machines until each is as awaited or has failed, or until `until_ns`; sending: true while more
        will come."""

    def ask(self, happened: Happened) -> None:
        """Add what the maker knows of each machine, after the storm: narrower moments, events, what watching cost."""

    def delete(self, track: Track) -> None:
        """Request the removal of one machine."""

    def watch_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        """Observe until no machine is left, or until that moment."""

    def clear(self, tracks: Sequence[Track], within_s: float) -> dict[str, str]:
        """Remove whatever is left, by name, and tell the ledger. Returns names that stay, and why."""
