"""Removes from clouds what a ledger announced: also what was asked for by a request whose answer nobody saw.

Such a request may be worked on after the process that sent it has died. So a name that was announced, and never
answered for, is looked for until SETTLE_S after its announcement before it counts as never made.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.clouds.http import Api
from contend.clouds.login import login
from contend.clouds.openstack import KINDS, Cloud, Kind
from contend.errors import ContendError, HostFailed
from contend.platforms.removers import Removed, Row, unknown
from contend.store.ownership import why_file_changeable

SETTLE_S = 30.0


def remove(
    rows: Sequence[Row],
    connect: Callable[[str, str], Any] | None = None,
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Removed]:
    """Remove what the rows announce, with one login a cloud. `connect` makes an Api of a cloud's name and its
    clouds.yaml."""
    done: list[Removed] = []
    # Those of other projects first: the projects themselves are among the rest.
    for where in sorted({_where(r) for r in rows}, reverse=True):
        everywhere, cloud, config, run = where
        mine = [r for r in rows if _where(r) == where]
        services = tuple(dict.fromkeys(k.service for k in KINDS.values() if k.ledger in _kinds(mine)))
        if "identity" in services:
            services += ("network",)  # what it keeps for a project goes with it
        try:
            api = connect(cloud, config) if connect else _connect(cloud, config, services)
        except ContendError as error:
            done += [
                Removed(str(r["kind"]), str(r["name"]), True, f"{error.message} ({error.hint})") for r in mine
            ]
            continue
        try:
            things = Cloud(api, run, everywhere=bool(everywhere), sleep=sleep)
            done += _of_cloud(things, mine, now, sleep)
        finally:
            api.close()
    return done


def _where(row: Row) -> tuple[str, str, str, str]:
    return _text(row, "everywhere"), _text(row, "cloud"), _text(row, "config"), _text(row, "run")


def _kinds(rows: Sequence[Row]) -> set[str]:
    return {str(row["kind"]) for row in rows}


def _connect(cloud: str, config: str, services: tuple[str, ...]) -> Any:
    # It says where passwords go.
    if config and (why := why_file_changeable(Path(config))):
        raise HostFailed(
            f"{config} is not read: {why}",
            hint="describe the cloud in a clouds.yaml that only you can write; or remove these by hand",
        )
    return Api(login(cloud, config, services), lambda: login(cloud, config, services))


def _of_cloud(
    cloud: Cloud, rows: Sequence[Row], now: Callable[[], float], sleep: Callable[[float], None]
) -> list[Removed]:
    done: list[Removed] = []
    for kind in KINDS.values():
        mine = {str(r["name"]): r for r in rows if r["kind"] == kind.ledger}
        if not mine:
            continue
        try:
            there, late = cloud.remove(kind, list(mine))
            unsettled = {
                n: _settled_at(r) for n, r in mine.items() if r["event"] == "intend" and n not in there
            }
            appeared, stuck = _settle(cloud, kind, unsettled, now, sleep)
        except ContendError as error:
            done += [Removed(kind.ledger, name, True, error.message) for name in mine]
            continue
        done += [Removed(kind.ledger, n, n in there | appeared, (late | stuck).get(n, "")) for n in mine]
    known = {kind.ledger for kind in KINDS.values()}
    strange = [r for r in rows if r["kind"] not in known]
    return done + [
        Removed(str(r["kind"]), str(r["name"]), True, unknown(str(r["kind"])).message) for r in strange
    ]


def _settle(
    cloud: Cloud,
    kind: Kind,
    until: Mapping[str, float],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[set[str], dict[str, str]]:
    """Look again for what was never answered for. `until`: by name, when it counts as never made."""
    appeared: set[str] = set()
    stuck: dict[str, str] = {}
    while waiting := [name for name, end in until.items() if now() < end]:
        sleep(1.0)
        there, late = cloud.remove(kind, waiting)
        appeared |= there
        stuck |= late
        if late:
            break
    return appeared, stuck


def _settled_at(row: Row) -> float:
    """Seconds since the epoch."""
    return datetime.datetime.fromisoformat(str(row["utc"])).timestamp() + SETTLE_S


def _text(row: Row, key: str) -> str:
    return str(row.get(key) or "")
