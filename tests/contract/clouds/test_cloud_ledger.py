"""What a run makes on a cloud is in its ledger first and found again, however its requests end."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.http import Api, RequestFailed
from contend.clouds.openstack import KINDS, MARK, Cloud, Record, unique_name
from contend.clouds.removal import SETTLE_S, remove
from contend.store.ledger import leftovers, read_rows
from support.bad_api import BadApi, Fault, bad_api

SERVER = KINDS["server"]
RUN = "boot-storm-20260102-101500-7f3a"
NAME = unique_name(RUN, "1-aa-0")


@pytest.fixture
def api() -> Iterator[BadApi]:
    with bad_api() as api:
        yield api


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.ndjson"


def cloud(api: BadApi, token: str = "good", **options: Any) -> Cloud:
    waits: list[float] = []
    made = Cloud(Api(api.access(token), sleep=waits.append, **options), RUN, sleep=lambda s: None)
    made.waits = waits  # type: ignore[attr-defined]
    return made


def record(ledger: Path) -> Record:
    return Record(ledger, run=RUN, cloud="bad", config="")


def destroy(api: BadApi, ledger: Path, **clock: Any) -> dict[str, tuple[bool, str]]:
    """As `contend destroy` does with the rows of the ledger."""
    clock = {"sleep": lambda s: None, **clock}
    made = remove(leftovers(ledger), lambda name, config: Api(api.access()), **clock)
    return {gone.name: (gone.was_there, gone.why) for gone in made}


def test_the_ledger_knows_it_before_the_request_leaves(api: BadApi, ledger: Path) -> None:
    kept: list[list[str]] = []
    original = api.add

    def add(name: str, **more: Any) -> str:
        kept.append([row["event"] for row in read_rows(ledger)])
        return original(name, **more)

    api.add = add  # type: ignore[method-assign]
    with record(ledger) as rows:
        made = cloud(api).create(rows, SERVER, NAME, {})
    assert kept == [["intend"]]
    assert [r["event"] for r in read_rows(ledger)] == ["intend", "created"]
    assert next(iter(api.servers.values()))["metadata"] == {MARK: RUN}
    assert leftovers(ledger)[0]["id"] == made["id"]


def test_an_answer_that_is_lost_is_looked_for_by_name(api: BadApi, ledger: Path) -> None:
    api.faults["POST"] = [Fault(act=True)]
    with record(ledger) as rows:
        made = cloud(api).create(rows, SERVER, NAME, {})
    assert api.count("POST") == 1
    assert list(api.servers) == [made["id"]]


def test_a_request_that_was_lost_is_sent_again_only_when_its_name_is_not_there(
    api: BadApi, ledger: Path
) -> None:
    api.faults["POST"] = [Fault(), Fault(500)]
    with record(ledger) as rows:
        cloud(api).create(rows, SERVER, NAME, {})
    assert [line.split()[0] for line in api.seen] == ["POST", "GET", "POST", "GET", "POST"]
    assert len(api.servers) == 1


def test_what_stays_unanswered_stays_in_the_ledger(api: BadApi, ledger: Path) -> None:
    api.faults["POST"] = [Fault(500)] * 3
    with record(ledger) as rows, pytest.raises(RequestFailed, match="500 told to fail"):
        cloud(api).create(rows, SERVER, NAME, {})
    assert [row["name"] for row in leftovers(ledger)] == [NAME]


def test_a_refusal_leaves_nothing_behind(api: BadApi, ledger: Path) -> None:
    api.faults["POST"] = [Fault(403)]
    with record(ledger) as rows, pytest.raises(RequestFailed, match="403") as caught:
        cloud(api).create(rows, SERVER, NAME, {})
    assert "quota" in caught.value.hint
    assert api.count("POST") == 1
    assert leftovers(ledger) == []


def test_a_rate_limit_is_obeyed_and_counted(api: BadApi, ledger: Path) -> None:
    api.faults["POST"] = [Fault(429, headers={"Retry-After": "7"}), Fault(429)]
    made = cloud(api)
    with record(ledger) as rows:
        made.create(rows, SERVER, NAME, {})
    assert made.waits[0] == 7.0  # type: ignore[attr-defined]
    assert made.api.counts["rate limited (429)"] == 2
    assert len(api.servers) == 1


def test_a_token_that_expired_is_renewed_once_for_all(api: BadApi, ledger: Path) -> None:
    logins: list[int] = []

    def renew() -> Any:
        logins.append(1)
        return api.access()

    made = cloud(api, "old", renew=renew)
    made.list(SERVER, "contend-")
    made.list(SERVER, "contend-")
    assert len(logins) == made.api.counts["token renewed"] == 1


def test_a_token_that_stays_refused_is_an_error(api: BadApi) -> None:
    with pytest.raises(RequestFailed, match="401") as caught:
        cloud(api, "old", renew=lambda: api.access("old too")).list(SERVER, "contend-")
    assert "password" in caught.value.hint


def test_reads_go_on_through_errors(api: BadApi) -> None:
    api.add(NAME, metadata={MARK: RUN})
    api.faults["GET"] = [Fault(500), Fault(), Fault(503)]
    assert len(cloud(api).find(SERVER, [NAME])) == 1


def test_every_page_is_read(api: BadApi) -> None:
    api.page = 3
    names = [unique_name(RUN, f"1-aa-{n}") for n in range(8)]
    for name in names:
        api.add(name, metadata={MARK: RUN})
    assert sorted(i["name"] for i in cloud(api).find(SERVER, names)) == names


def test_destroy_takes_what_is_ours_and_leaves_strangers(api: BadApi, ledger: Path) -> None:
    ours = api.add(NAME, metadata={MARK: RUN})
    twice = api.add(NAME, metadata={MARK: RUN})
    unmarked = api.add(NAME)
    of_another_run = api.add(NAME, metadata={MARK: "other"})
    longer = api.add(NAME + "0", metadata={MARK: RUN})
    stranger = api.add("database", metadata={MARK: RUN})
    with record(ledger) as rows:
        rows.intend(SERVER, [NAME])
        rows.created(SERVER, {NAME: ours})
    assert destroy(api, ledger) == {NAME: (True, "")}
    assert set(api.servers) == {unmarked, of_another_run, longer, stranger}
    assert {ours, twice}.isdisjoint(api.servers)


def test_destroy_waits_for_a_request_that_may_still_be_worked_on(api: BadApi, ledger: Path) -> None:
    with record(ledger) as rows:
        rows.intend(SERVER, [NAME])
    announced = datetime.datetime.fromisoformat(next(read_rows(ledger))["utc"]).timestamp()
    time = [announced]

    def sleep(seconds: float) -> None:
        time[0] += seconds
        if announced + 5 < time[0] < announced + 7:
            api.add(NAME, metadata={MARK: RUN})

    assert destroy(api, ledger, now=lambda: time[0], sleep=sleep) == {NAME: (True, "")}
    assert api.servers == {}
    assert time[0] >= announced + SETTLE_S


def test_destroy_does_not_wait_for_what_was_answered_for_or_is_long_past(api: BadApi, ledger: Path) -> None:
    with record(ledger) as rows:
        rows.intend(SERVER, [NAME])
        rows.created(SERVER, {NAME: "gone-already"})
    slept: list[float] = []
    assert destroy(api, ledger, sleep=slept.append) == {NAME: (False, "")}
    assert slept == []


def test_what_cannot_be_deleted_stays_in_the_ledger_with_the_reason(api: BadApi, ledger: Path) -> None:
    api.add(NAME, metadata={MARK: RUN})
    api.faults["DELETE"] = [Fault(403)]
    with record(ledger) as rows:
        rows.intend(SERVER, [NAME])
    there, why = destroy(api, ledger)[NAME]
    assert there
    assert "403" in why


def test_a_cloud_that_does_not_answer_says_so_for_each(ledger: Path) -> None:
    with record(ledger) as rows:
        rows.intend(SERVER, [NAME])

    def connect(name: str, config: str) -> Any:
        raise RequestFailed("no connection", status=0, hint="is it up?")

    (gone,) = remove(leftovers(ledger), connect)
    assert gone.was_there
    assert gone.why == "no connection (is it up?)"
