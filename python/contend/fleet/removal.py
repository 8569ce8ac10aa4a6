"""Removers of all that contend makes: what a run makes, and fleets."""

from __future__ import annotations

from contend import names
from contend.engine.removal import REMOVERS
from contend.errors import HostFailed
from contend.platforms.confinement import OfRun, stranger
from contend.platforms.removers import Removers, Row

FLEET, PARTS = "fleet", "fleet-run"  # kinds in the ledger


def _fleet(name: str, row: Row, of: OfRun) -> bool:
    """A fleet that was brought up for one run, with all that its hosts hold of it."""
    if name != of.run_id:
        raise stranger(name, "fleets")
    from contend.fleet import up  # what reaches hosts is imported where a run has some

    fleet = up.find(name)
    if fleet is None:
        return False
    if failed := up.stop(fleet):
        host, why = next(iter(failed.items()))
        raise HostFailed(f"{host}: {why}", hint="once it is back: contend destroy again")
    return True


def _parts(name: str, row: Row, of: OfRun) -> bool:
    """End what the hosts of a fleet that stays do for a run whose coordinator is gone."""
    if name != of.run_id:
        raise stranger(name, "parts of fleets")
    from contend.fleet import up

    fleet = up.find(names.check_name("fleet", str(row.get("fleet", ""))))
    return fleet is not None and up.end_run(fleet, name)


EVERYTHING = REMOVERS | Removers({FLEET: _fleet, PARTS: _parts})
