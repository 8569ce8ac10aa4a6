"""One registry of who removes what: put together from rooms that do not know each other."""

from __future__ import annotations

import pytest

from contend.clouds.local.removal import CONTAINER
from contend.clouds.openstack import KINDS
from contend.elsewhere import builds, hadoop
from contend.engine.removal import REMOVERS
from contend.errors import HostFailed
from contend.fleet.removal import EVERYTHING
from contend.platforms.confinement import OfRun
from contend.platforms.removers import Made, Removed, Removers, attempt
from contend.platforms.resources import HOST

OF = OfRun("run-1")


def test_rooms_are_put_together_and_none_is_changed() -> None:
    def gone(name: str, row: object, of: OfRun) -> bool:
        return name == "there"

    moon = Made("moon-", lambda rows: [Removed(str(r["kind"]), str(r["name"]), True) for r in rows])
    both = Removers({"rock": gone}) | Removers(made=(moon,))
    assert both.one("rock", "there", {}, OF) == Removed("rock", "there", was_there=True)
    assert not both.one("rock", "elsewhere", {}, OF).was_there
    assert both.is_made("moon-base") and not both.is_made("rock")
    assert both.one("star", "x", {}, OF).why == "contend does not know how to remove a star"
    assert not HOST.made and "rock" not in HOST.of_kind


def test_everything_that_is_announced_has_a_remover() -> None:
    made = [CONTAINER, builds.KIND, hadoop.KIND, *(kind.ledger for kind in KINDS.values())]
    assert all(REMOVERS.is_made(kind) for kind in made)
    assert {"fleet", "fleet-run"} == set(EVERYTHING.of_kind) - set(REMOVERS.of_kind)
    assert set(REMOVERS.of_kind) == set(HOST.of_kind)
    assert not [kind for kind in EVERYTHING.of_kind if EVERYTHING.is_made(kind)]


@pytest.mark.parametrize("error", [HostFailed("no", hint=""), OSError("no"), ValueError("no")])
def test_what_cannot_be_removed_stays_with_the_reason(error: Exception) -> None:
    def fail() -> bool:
        raise error

    assert attempt("file", "x", fail) == Removed("file", "x", was_there=True, why="no")


def test_a_fleet_of_another_run_is_none_of_this_one_s() -> None:
    for kind in ("fleet", "fleet-run"):
        assert "run-2 is not one of contend's" in EVERYTHING.one(kind, "run-2", {}, OF).why
