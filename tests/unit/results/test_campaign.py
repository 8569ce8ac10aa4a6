"""Campaigns that are stopped and go on: no draw twice, none left out, and a head of all the times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from results.campaign import gathering, merged, parser

HEAD: dict[str, Any] = {
    "command": "python bench/x.py", "date": "2026-11-28T15:00Z", "commit": "aaaa", "dirty": False, "seed": 1,
    "machine": {"cpus": 2, "cpu": "A"}, "load_before": 0.1, "load_max": 1.5, "foreign_cpus": 0.1,
    "foreign_cpus_max": 0.5, "stolen_cpus": 0.0, "seconds": 100,
}  # fmt: skip


def test_a_stopped_campaign_goes_on(tmp_path: Path) -> None:
    drawn: list[int] = []

    def one(number: int) -> dict[str, Any]:
        if number == 2 and len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.append(number)
        return {"drawn": number}

    given = parser("", count=4).parse_args(["-o", str(tmp_path / "rows")])
    with pytest.raises(KeyboardInterrupt), gathering(given) as campaign:
        campaign.rows(one)
    drawn.append(-1)
    with gathering(given) as campaign:
        rows = campaign.rows(one)
    assert [row["drawn"] for row in rows] == [0, 1, 2, 3]
    assert drawn == [0, 1, -1, 2, 3]
    heads = json.loads((tmp_path / "rows/heads.json").read_text())
    assert len(heads) == 2 and all(head["seed"] == 1 for head in heads)


def test_what_is_stale_is_drawn_again_in_its_place(tmp_path: Path) -> None:
    given = parser("", count=3).parse_args(["-o", str(tmp_path / "rows")])
    with gathering(given) as campaign:
        campaign.rows(lambda number: {"drawn": number, "way": 1})
    drawn: list[int] = []

    def once_more(number: int) -> dict[str, Any]:
        if drawn == [1]:
            raise KeyboardInterrupt
        drawn.append(number)
        return {"drawn": number, "way": 2}

    def is_stale(number: int, row: dict[str, Any]) -> bool:
        return number > 0 and row["way"] < 2

    given.count = 4
    with pytest.raises(KeyboardInterrupt), gathering(given) as campaign:
        campaign.rows(once_more, is_stale=is_stale)
    drawn.append(-1)
    with gathering(given) as campaign:
        rows = campaign.rows(once_more, is_stale=is_stale)
    assert drawn == [1, -1, 2, 3]
    assert [(row["drawn"], row["way"]) for row in rows] == [(0, 1), (1, 2), (2, 2), (3, 2)]
    assert rows == [json.loads(line) for line in (tmp_path / "rows/rows.ndjson").read_text().splitlines()]


def test_rows_of_a_result_are_gone_on_from(tmp_path: Path) -> None:
    result = tmp_path / "a-result"
    result.with_suffix(".json").write_text(json.dumps({"made": HEAD, "rows": [{"drawn": 0}]}))
    words = ["-o", str(tmp_path / "rows"), "--write", str(result), "--resume", "--count", "2"]
    given = parser("", count=4).parse_args([*words, "--seed", "2"])
    with pytest.raises(SystemExit, match="seed 1"), gathering(given):
        pass
    with gathering(parser("", count=4).parse_args(words)) as campaign:
        assert campaign.rows(lambda number: {"drawn": number}) == [{"drawn": 0}, {"drawn": 1}]
        (earlier,) = campaign.earlier
    assert earlier == HEAD


def test_the_head_is_of_all_times() -> None:
    later = HEAD | {
        "commit": "bbbb", "date": "2026-11-29T10:00Z", "machine": {"cpus": 2, "cpu": "B"}, "load_max": 1.0,
        "foreign_cpus": 0.4, "foreign_cpus_max": 0.4, "stolen_cpus": 0.3, "seconds": 200, "dirty": True,
    }  # fmt: skip
    of_both = merged([HEAD, later])
    assert of_both["commit"] == "aaaa" and of_both["commits"] == ["aaaa", "bbbb"]
    assert of_both["date"] == HEAD["date"] and of_both["seconds"] == 300 and of_both["dirty"]
    assert of_both["machine"] == {"cpus": 2, "cpu": "A; B"}
    assert (of_both["foreign_cpus"], of_both["foreign_cpus_max"], of_both["load_max"]) == (0.3, 0.5, 1.5)
    assert of_both["stolen_cpus"] == 0.2
    assert merged([of_both, later])["commits"] == ["aaaa", "bbbb"]
    assert merged([HEAD]) == HEAD
    assert merged([HEAD, later | {"foreign_cpus": None}])["foreign_cpus"] is None
    with pytest.raises(ValueError, match="numbers of CPUs"):
        merged([HEAD, later | {"machine": {"cpus": 4, "cpu": "A"}}])
