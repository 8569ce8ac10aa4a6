"""The parts of a fleet that need no second machine: rows merged, clocks estimated, blocks begun together, hosts named."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.errors import BadInput, HostFailed, ScenarioError
from contend.fleet import folders, following, ssh, up
from contend.fleet import host as there
from contend.fleet.asking import Asking, Away
from contend.fleet.clocks import Offset, drift, of_trip, restarted
from contend.fleet.fetching import NotKept, fetch
from contend.fleet.following import _all_ended
from contend.fleet.join import clear
from contend.fleet.merge import Merge, key_of
from contend.fleet.names import check_hosts, of_file
from contend.fleet.record import HostState, host_seed
from contend.fleet.together import Together
from contend.report.progress import NoProgress
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.store.hosts import on_one_clock
from contend.store.ledger import Ledger
from contend.studies.scenarios import parse

SCENARIO = parse(
    read_yaml(
        "study: compare\nvariants: [{name: A, command: 'true'}, {name: B, command: 'false'}]\n",
        "mine",
        ScenarioError,
    )
)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_asked_for_twice_nothing_is_lost_or_doubled(data: st.DataObject) -> None:
    """Hosts' files grow, answers overlap and are lost, and the coordinator dies and reads its file again."""
    files = {host: [{"trial": data.draw(st.integers(0, 5))} for _ in range(12)] for host in ("a", "b")}
    disk: list[dict[str, Any]] = []
    merge = Merge()
    for _ in range(30):
        host = data.draw(st.sampled_from(["a", "b"]))
        after = data.draw(st.integers(0, merge.had(host)))
        rows = files[host][after : after + data.draw(st.integers(0, 6))]
        disk += merge.take(host, after, rows, None)
        if data.draw(st.booleans()):
            merge = Merge(disk)
    for host in files:
        disk += merge.take(host, merge.had(host), files[host][merge.had(host) :], None)
    for host, rows in files.items():
        assert [r["trial"] for r in disk if r["host"] == host] == [r["trial"] for r in rows]
    assert len({key_of(row) for row in disk}) == len(disk)


def test_a_gap_is_an_error() -> None:
    with pytest.raises(HostFailed, match="rows 0 to 3 are missing"):
        Merge().take("a", 3, [{"trial": 1}], None)


def test_a_row_twice_on_the_disk_is_an_error() -> None:
    row = {"host": "a", "trial": 1, "attempt": 1}
    with pytest.raises(HostFailed, match="there twice"):
        Merge([row, row])


@given(
    offset_ns=st.integers(-(10**15), 10**15),
    there_ns=st.integers(0, 10**9),
    back_ns=st.integers(0, 10**9),
    sent_ns=st.integers(0, 10**15),
)
def test_the_true_offset_is_within_the_bound(
    offset_ns: int, there_ns: int, back_ns: int, sent_ns: int
) -> None:
    """However unlike the two ways are."""
    seen = of_trip(sent_ns, sent_ns + there_ns + offset_ns, sent_ns + there_ns + back_ns)
    assert abs(seen.offset_ns - offset_ns) <= seen.bound_ns + 1  # half a nanosecond is rounded


def test_a_drift_within_its_bound() -> None:
    chance = random.Random(1)
    for _ in range(200):
        ppm = chance.uniform(-200, 200)
        first = Offset(chance.randrange(1000), 1000, 0)
        true_ns = ppm * 60_000  # after 60 s
        last = Offset(round(true_ns + chance.uniform(-1000, 1000)), 1000, 60 * 10**9)
        found = drift(first, last)
        assert found is not None and abs(found.ppm - ppm) <= found.bound_ppm


def test_rows_of_several_hosts_stand_on_one_clock() -> None:
    rows = [
        {
            "host": "a",
            "started_ns": 1_000_100,
            "ended_ns": 1_000_200,
            "clock_offset": {"offset_ns": 1_000_000},
        },
        {"host": "b", "started_ns": 150, "ended_ns": 250, "clock_offset": {"offset_ns": 0}},
    ]
    assert [row["started_ns"] for row in on_one_clock(rows)] == [100, 150]


class Starts:
    """Three hosts that start their blocks together."""

    def __init__(self) -> None:
        self.states = {name: HostState(name, "running") for name in "abc"}
        self.together = Together(self.states, "abc", self._go)

    async def _go(self, name: str, block: int, at_ns: int) -> None:
        raise AssertionError("nothing is sent here")


def test_all_that_are_there_begin_together() -> None:
    starts = Starts()
    starts.together.heard("a", 1)
    starts.together.heard("b", 1)
    assert starts.together.chosen(starts.together._since + 1) == (0, [], [])
    starts.together.heard("c", 1)
    assert starts.together.chosen(starts.together._since + 1) == (1, ["a", "b", "c"], [])


@pytest.mark.parametrize("state", ["lost", "ended", "given up", "failed"])
def test_who_is_gone_is_not_waited_for(state: str) -> None:
    starts = Starts()
    starts.states["c"].state = state
    starts.together.heard("a", 4)
    starts.together.heard("b", 4)
    assert starts.together.chosen(starts.together._since + 1) == (4, ["a", "b"], [])


def test_who_was_away_catches_up_at_once() -> None:
    starts = Starts()
    starts.together.heard("a", 4)
    starts.together.heard("b", 2)
    assert starts.together.chosen(starts.together._since + 1) == (0, [], ["b"])


def test_a_slow_one_is_waited_for_no_longer_than_stated() -> None:
    starts = Starts()
    starts.together.heard("a", 4)
    since = starts.together._since
    assert starts.together.chosen(since + 59) == (0, [], [])
    starts.together._began = since
    assert starts.together.chosen(since + 9) == (0, [], [])
    assert starts.together.chosen(since + 11) == (4, ["a"], [])


def test_every_host_has_an_order_of_its_own() -> None:
    assert len({host_seed(7, f"h{n}") for n in range(50)}) > 45


@pytest.mark.parametrize("name", ["", "-oProxyCommand=x", "a b", "a/b", "../a", "a;b", "$(x)"])
def test_names_that_no_host_has(name: str) -> None:
    with pytest.raises(BadInput, match="no name of a host"):
        check_hosts([name])


def test_a_host_named_twice() -> None:
    with pytest.raises(BadInput, match="'a' is named twice"):
        check_hosts(["a", "b", "a"])


def test_a_file_of_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("db1  # the first\n\nroot@10.0.0.7\n", encoding="utf-8")
    assert of_file(path) == ("db1", "root@10.0.0.7")
    path.write_text("# none\n", encoding="utf-8")
    with pytest.raises(BadInput, match="names no host"):
        of_file(path)


@given(
    ppm=st.floats(-500, 500),
    span_s=st.integers(0, 30 * 86400),
    bound_ns=st.integers(0, 10**9),
    error=st.floats(-1, 1),
)
def test_a_clock_that_drifts_is_still_the_same(ppm: float, span_s: int, bound_ns: int, error: float) -> None:
    """As fast as the kernel lets a clock be corrected (adjtimex: 500 ppm), for a month, estimated as badly as may be."""
    first = Offset(7 * 10**12, bound_ns, 0)
    seen_ns = 7 * 10**12 + ppm * 1e3 * span_s + error * 2 * bound_ns
    assert not restarted(first, Offset(round(seen_ns), bound_ns, span_s * 10**9))


def test_a_host_that_was_started_anew_has_another_clock() -> None:
    """Up for an hour, it reboots in two minutes: its CLOCK_MONOTONIC begins at 0 again."""
    assert restarted(Offset(0, 10**6, 0), Offset(-3600 * 10**9, 10**6, 120 * 10**9))


def test_a_clock_is_estimated_again_while_its_host_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that runs apart by 20 ppm is 72 ms away after an hour: rows and starts go by the last sure estimate."""
    unsure = Offset(7000, 10**6, 10**9)
    estimates = [Offset(0, 1000, 0), unsure, unsure, Offset(72_000_000, 1000, 3600 * 10**9)]
    left = iter(estimates)
    answer = {"part": "p", "problems": [], "notes": [], "late_ns": [], "ready": 0, "total": 3, "ended": None}
    went: list[int] = []

    class Host:
        members = {"a": "tcp://a"}

        async def ask(self, name: str, function: Any, *given: Any, limit_s: float = 0.0) -> Any:
            if function is there.go:
                went.append(given[-1])
            if function is there.pull:
                after = given[1]
                ended = {"ended": "planned blocks done", "failed": 0} if after == 2 else None
                row = {"trial": after, "block": 0, "phase": "pilot", "cell": "c", "metrics": []}
                return {**answer, "after": after, "rows": [row], "ended": ended}
            return answer

    async def estimate(_: object) -> Offset:
        return next(left)

    async def nothing(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(following, "estimate", estimate)
    monkeypatch.setattr(following, "fetch", nothing)
    monkeypatch.setattr(following, "CLOCK_S", 0.0)
    monkeypatch.setattr(following, "TRIPS", 0)
    wanted = SimpleNamespace(seeds={"a": 1}, together=False, scenario=SCENARIO, command="", workloads={})
    with RunDirectory.create(tmp_path, "r", "1") as run, Ledger(run.ledger_path) as ledger:
        followed = following.Following(wanted, run, ledger, NoProgress())  # type: ignore[arg-type]
        followed._hosts = Host()  # type: ignore[assignment]
        asyncio.run(followed._attend(followed.states["a"]))
        asyncio.run(followed._go("a", 1, 5))
        rows = [json.loads(line) for line in run.trials_path.read_text().splitlines()]
        assert [row["clock_offset"]["offset_ns"] for row in rows] == [0, 0, 72_000_000]
    assert went == [72_000_005]
    assert followed.states["a"].first == estimates[0]


def test_what_a_host_printed_before_its_answer_is_passed_over() -> None:
    assert ssh._document("a", 0, 'Last login: today\n\n{"ended": true}\n', "") == {"ended": True}
    for out, err, told in (("", "", "(no output)"), ("[1]", "", "[1]"), ("no", "bash: no", "bash: no")):
        with pytest.raises(HostFailed, match="a: exit status 3: ") as failed:
            ssh._document("a", 3, out, err)
        assert told in failed.value.message


def test_a_command_of_no_words() -> None:
    with pytest.raises(BadInput, match="--contend names no command"):
        ssh.Way("  ")


def test_an_address_that_hosts_cannot_connect_back_to(tmp_path: Path) -> None:
    fleet = up.Fleet("f", tmp_path, ("a",), ssh.Way(), keep=True, by_hand=True, lost_s=60)
    with pytest.raises(BadInput, match="over IPv4"):
        up.check_address("2001:db8::7")
    up.check_address("10.0.0.1")
    told = asyncio.run(up.bring(fleet, ["a"], "2001:db8::7"))["a"]
    assert isinstance(told, HostFailed) and "--address" in told.hint


class Files:
    """What one host would answer when it is asked for its files."""

    def __init__(self, files: dict[str, bytes], chunk: int) -> None:
        self.files, self.chunk = files, chunk

    async def ask(self, _host: str, function: Any, _run: str, *of: Any) -> Any:
        if function is there.files:
            return [(name, len(data)) for name, data in self.files.items()]
        name, offset = of
        return self.files[name][offset : offset + self.chunk]


def fetched(tmp_path: Path, files: dict[str, bytes], chunk: int = 3) -> Path:
    run = RunDirectory(tmp_path / "run")
    asking: Any = Files(files, chunk)
    asyncio.run(fetch(asking, run, "a"))
    return run.path / "hosts/a"


def test_files_of_a_host_come_whole_and_only_below_its_own_directory(tmp_path: Path) -> None:
    own = fetched(tmp_path, {"plan.json": b"0123456789", "series/x.parquet": b"", "trials.ndjson": b"no"})
    assert (own / "plan.json").read_bytes() == b"0123456789"
    assert sorted(p.name for p in own.rglob("*") if p.is_file()) == ["plan.json", "x.parquet"]
    for name in ("../../../outside", "/etc/contend-outside", "series/../../b/plan.json"):
        with pytest.raises(HostFailed, match="outside its run directory"):
            fetched(tmp_path, {name: b"x"})
    assert not (tmp_path / "outside").exists()


def test_no_room_for_a_hosts_file_is_not_that_hosts_failure(tmp_path: Path, full_disk: Path) -> None:
    with pytest.raises(NotKept) as failed:
        fetched(full_disk, {"plan.json": bytes(4 << 20)}, 1 << 18)
    assert (
        isinstance(failed.value.__cause__, HostFailed) and "No space left" in failed.value.__cause__.message
    )
    assert not list(full_disk.rglob(".*.part"))


def test_the_end_of_who_leads_is_not_waited_through() -> None:
    """A helper that fails ends the run: hosts would wait for it for ever. A host that does is told after the others."""

    async def fails(error: Exception, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        raise error

    async def judged(hosts: list[Any], helpers: list[Any]) -> None:
        tasks, beside = [asyncio.create_task(c) for c in hosts], [asyncio.create_task(c) for c in helpers]
        try:
            await asyncio.wait_for(_all_ended(tasks, beside), 20)
        finally:
            for task in (*tasks, *beside):
                task.cancel()
            await asyncio.gather(*tasks, *beside, return_exceptions=True)

    asyncio.run(judged([asyncio.sleep(0.01)], [asyncio.sleep(60), asyncio.sleep(0)]))
    with pytest.raises(KeyError):
        asyncio.run(judged([asyncio.sleep(60)], [fails(KeyError("x"))]))
    full = NotKept()
    full.__cause__ = HostFailed("cannot write x", hint="free some space")
    ended = []

    async def ends() -> None:
        await asyncio.sleep(0.05)
        ended.append("b")

    with pytest.raises(HostFailed, match="cannot write x"):
        asyncio.run(judged([fails(full), ends()], []))
    assert ended == ["b"]


def test_a_part_that_is_begun_twice_at_once_begins_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question whose answer was lost is asked again, while the first is still being done."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    begun = []

    async def started(part: there.Part, _spec: Any) -> None:
        await asyncio.sleep(0.05)
        begun.append(part)
        part.process = await asyncio.create_subprocess_exec("sleep", "60")

    monkeypatch.setattr(there, "_start", started)

    async def twice() -> None:
        host = there.Host(tmp_path, "a")
        worker: Any = SimpleNamespace(plugins={there.PLUGIN: host})
        await asyncio.gather(*(there.begin("run-1", {}, worker) for _ in range(3)))
        (part,) = begun
        assert part.process is not None
        part.process.kill()
        await part.process.wait()

    asyncio.run(twice())


def test_a_part_stays_while_something_of_it_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger is what says how to remove that."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    part = folders.parts() / "run-1"
    part.mkdir(parents=True)
    (part / "fleet").write_text("f")
    left = ["cgroup contend-1: Device or resource busy"]
    monkeypatch.setattr(there, "remove_left", lambda folder: list(left) if folder == part else [])
    worker: Any = SimpleNamespace(plugins={there.PLUGIN: there.Host(tmp_path, "a")})
    assert asyncio.run(there.forget("run-1", worker)) == left
    assert clear("f", purge=True) == (left, [])
    assert part.is_dir()
    gone, left = left, []
    assert asyncio.run(there.forget("run-1", worker)) == []
    assert gone
    assert not part.exists()


def test_without_its_scheduler_every_host_is_away() -> None:
    """As dask leaves a client whose scheduler was killed: without one, so that each question is an AttributeError."""

    async def asked() -> Asking:
        client: Any = SimpleNamespace(status="closed", scheduler=None)
        asking = Asking(client, {"a": "tls://10.0.0.1:1"})
        watch = asyncio.create_task(asking.watch())
        with pytest.raises(Away, match="scheduler is gone"):
            await asking.ask("a", there.reading)
        await asyncio.sleep(0.01)
        assert not watch.done()
        watch.cancel()
        return asking

    assert asyncio.run(asked()).members == {}


def test_a_coordinator_stops_waiting_when_the_budget_is_spent() -> None:
    import asyncio

    from contend.clock import SystemClock
    from contend.engine.deadline import Deadline
    from contend.fleet.coordinator import Stop, Stopped

    stop = Stop(Deadline.of(10**9, SystemClock()))
    with pytest.raises(Stopped):
        stop.run(asyncio.sleep(60))
    assert stop.expired
    assert not stop.requested
    endless = Stop(Deadline.of(None, SystemClock()))
    endless.run(asyncio.sleep(0))
    assert not endless.expired
