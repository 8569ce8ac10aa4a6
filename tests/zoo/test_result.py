"""A campaign's page, from planted rows."""

from __future__ import annotations

from typing import Any

from results.pages import what_if_programs
from zoo.result import summary
from zoo.test_scoring import edit, row


def recorded(*edits: dict[str, Any], **of: Any) -> dict[str, Any]:
    return {**row(list(edits), "storm.stock"), "took_s": 12.4, "commit": "abc", "load": 0.3, **of}


def test_counts_and_page() -> None:
    right, wrong = edit((0.5, 0.5), (0.5, 0.51)), edit((0.9, 1.0), (0.5, 1.0))
    rows = [
        recorded(right, edit((0.97, 0.97), (0.95, 0.96)), seed=7),
        recorded(
            wrong,
            edit((0.5, 0.5), (0.8, 0.8), trusted=False),
            seed=8,
            commit="def",
            load=1.5,
            tries=2,
            storms=12,
        ),
        {"seed": 9, "population": "development", "mechanisms": ["plain_lock"], "failed": "no broker"},
    ]
    assert summary([recorded(edit((0.5, 0.5), (0.8, 0.8), drift=-0.2), tries=3)], {})["moved"] == 1
    left_out = {"stores": [recorded(edit((0.5, 0.5), (0.8, 0.8), trusted=False))]}
    data = summary(rows, left_out)
    assert (data["programs"], data["failed"], data["took_s"]) == (2, ["9: no broker"], 25)
    assert data["recorded_at"] == {"abc": 1, "def": 1} and data["load"] == [0.9, 1.5]
    everything, supported = data["groups"][:2]
    assert supported["name"] == "all that are supported" and supported["edits"] == 4
    assert everything["answers"] == {"right": 2, "wrong and trusted": 1, "refused rightly": 1}
    assert everything["naive"]["no change"] == [3, 4]
    assert everything["hunts"] == {"first": 2}
    assert data["sizes"]["below 10 %"] == {"right": 1}
    assert data["sizes"]["above 30 %"] == {"right": 1, "wrong and trusted": 1}
    assert data["left_out"] == [{"name": "stores", "answers": {"refused rightly": 1}}]
    assert (data["done_again"], data["moved"]) == (1, 0)
    page = what_if_programs.body(data)
    assert "1 of the\nprograms. Still so" in page and "asked for more storms: 1 of the programs." in page
    assert "Answers that are trusted: 3 of 4 [19.4, 99.4 %]" in page
    assert "1 of 3 [0.8, 90.6 %]" in page and "1 at abc, 1 at def" in page
    assert "| stores | 0 | 0 | 1 | 0 |" in page
    assert "declared not supported: 3 of 4" in " ".join(page.split()) and "rabbit_workers (" in page
    assert "median predicted ×0.90, true ×0.50" in page


def test_what_is_not_supported_is_told_apart() -> None:
    right, refused = edit((0.5, 0.5), (0.5, 0.51)), edit((0.5, 0.5), (0.8, 0.8), trusted=False)
    rows = [recorded(right), recorded(refused, mechanisms=("plain_lock", "rabbit_workers"))]
    everything, supported = summary(rows, {})["groups"][:2]
    assert (everything["edits"], supported["edits"]) == (2, 1)
    assert supported["answers"] == {"right": 1}


def test_an_empty_campaign_counts_nothing() -> None:
    data = summary([], {})
    assert data["programs"] == 0 and data["groups"] == []
