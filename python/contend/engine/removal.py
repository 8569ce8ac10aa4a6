"""Removers of all that a run makes: on this host, on clouds, on the user's services."""

from __future__ import annotations

from collections.abc import Sequence

from contend.platforms.removers import Made, Removed, Removers, Row
from contend.platforms.resources import HOST

# What a cloud needs is imported where a run has something there: it costs more than most cleanings.


def _on_clouds(rows: Sequence[Row]) -> list[Removed]:
    from contend.clouds.removal import remove

    return remove(rows)


def _of_storms(rows: Sequence[Row]) -> list[Removed]:
    from contend.clouds.local.removal import remove

    return remove(rows)


def _let_calls_end(rows: Sequence[Row]) -> None:
    if rows:
        from contend.clouds.local.removal import let_calls_end

        let_calls_end(rows)


def _elsewhere(rows: Sequence[Row]) -> list[Removed]:
    from contend.elsewhere.removal import remove

    return remove(rows)


REMOVERS = HOST | Removers(
    made=(
        Made("local-", _of_storms, _let_calls_end),
        Made("openstack-", _on_clouds),
        Made("elsewhere-", _elsewhere),
    )
)
