"""What each call costs as a cloud fills, by kind of entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from results.files import Data
from results.words import table

HEAD = [
    "call", "ms with none", "ms with {most:,}", "ms for every 100 more", "grows", "statements a call", "beyond the SLO from",
]  # fmt: skip

BEDS = """\
The clouds are beds as `testbed/openstack/openstack up` brings them; servers and images were made on one of `up --without
volume --without orchestration --computes 8 --patch testbed/openstack/patches/nova-34-allocations.patch`, with
CONTEND_TEST_WITHIN=1800, since a thousand servers take longer than the usual 900 s."""


def body(data: Mapping[str, Data]) -> str:
    """A table for each kind, and the answer of the command."""
    return "\n\n".join([BEDS, *(kind(d) for d in data.values())])


def kind(d: Data) -> str:
    """One data file."""
    grown = d["growth"]
    head = [word.format(most=grown["reached"]) for word in HEAD]
    control = "changed too" if grown["control_alarm"] else "did not change"
    visits = grown["calls"][0]["slope"]["n"]
    text = f"{visits} visits up and down to {grown['reached']:,}. {d['answer']} The control, a call that looks at none, {control}."
    return f"## {grown['kind']}\n\n{text}\n\n{table(head, map(_row, grown['calls']), 'lrrrlrr')}"


def _row(one: Mapping[str, Any]) -> list[object]:
    slope, breaks = one["slope"], one["breaks"]
    beyond = (
        ""
        if breaks["value"] is None
        else f"{breaks['value']:.0f} [{breaks['low']:.0f}, {breaks['high']:.0f}]"
    )
    return [
        one["call"],
        f"{1e3 * one['start']['value']:.0f}",
        f"{1e3 * one['at_largest']['value']:.0f}",
        f"{1e3 * slope['value']:.1f} [{1e3 * slope['low']:.1f}, {1e3 * slope['high']:.1f}]",
        one["shape"],
        _statements(one),
        beyond,
    ]


def _statements(one: Mapping[str, Any]) -> str:
    """With none, and with all where a line through them says that they become more."""
    sql = one["counted"].get("SQL")
    if sql is None:
        return ""
    start, slope = sql["start"]["value"], sql["slope"]
    grows = slope["low"] is not None and slope["low"] > 0 and 10 * slope["value"] >= 1
    more = f" → {start + slope['value'] * one['largest'] / 100:.0f}" if grows else ""
    return f"{start:.0f}{more}"
