"""Notifications as nova sends them, in both of its formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contend.clouds.storm.notices import Notice, parse, where
from contend.errors import BadInput

STAMP = {"timestamp": "2026-01-02 10:15:00.123456"}
AT_NS = 1767348900123456000


def envelope(**message: Any) -> str:
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps({**STAMP, **message})})


def versioned(event: str, **data: Any) -> str:
    return envelope(event_type=event, payload={"nova_object.data": {"uuid": "u", **data}})


def update(old: str | None, new: str) -> dict[str, Any]:
    return {"state_update": {"nova_object.data": {"old_state": old, "state": new}}}


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (versioned("instance.create.start"), "start"),
        (versioned("instance.create.end"), "end"),
        (versioned("instance.update", **update("building", "active")), "active"),
        (envelope(event_type="compute.instance.create.end", payload={"instance_id": "u"}), "end"),
        (
            envelope(
                event_type="compute.instance.update",
                payload={"instance_id": "u", "old_state": "building", "state": "active"},
            ),
            "active",
        ),
    ],
)
def test_what_is_about_a_creation_is_read(body: str, what: str) -> None:
    assert parse(body, 5) == Notice("u", what, AT_NS, 5)


@pytest.mark.parametrize(
    "body",
    [
        versioned("instance.update", **update("active", "active")),
        versioned("instance.update", **update(None, "active")),
        versioned("instance.delete.end"),
        envelope(event_type="compute.create.end", payload={}),
        "no JSON",
        "[]",
        json.dumps({"oslo.message": "{}"}),
    ],
)
def test_the_rest_is_not(body: str) -> None:
    assert parse(body, 5) is None


def test_buses_that_are_not_read_are_refused() -> None:
    with pytest.raises(BadInput, match="kafka"):
        where("kafka://host/", {})
    assert where("", {}) is None
