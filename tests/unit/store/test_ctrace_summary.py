"""Where the time of a trace went: known programs, known answers."""

from __future__ import annotations

import io
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console

from contend.cli.report_ import command
from contend.errors import BadInput, HostFailed
from contend.report.trace_page import write_page
from contend.report.trace_terminal import print_summary
from contend.report.trace_words import answer
from contend.store.trace_summary import Holder, Lock, Repeated, TraceSummary, summarise
from contend.text.shape import schema
from support import ctrace_files as c
from support.answers import data_in
from support.ctrace_files import Made, event, number


def of_span(summary: TraceSummary, name: str) -> dict[str, int]:
    """What is not nought."""
    (found,) = (span for span in summary.spans if span.name == name)
    return {key: value for key, value in vars(found).items() if value and key != "name"}


def one_thread(tmp_path: Path, *events: tuple[int, int, str] | bytes, least: int = 5) -> TraceSummary:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    told = [e if isinstance(e, bytes) else event(e[0], e[1], made.string(e[2])) for e in events]
    made.events(1, told)
    made.end(10_000)
    return summarise(made.save(tmp_path), least)


def test_the_time_of_a_span_is_its_own_or_of_spans_inside(tmp_path: Path) -> None:
    summary = one_thread(
        tmp_path,
        (100, c.BEGIN, "a"),
        (200, c.BEGIN, "b"),
        (250, c.END, "b"),
        (300, c.BEGIN, "b"),
        event(400, c.END, 3, 1),  # after main and a, b is the third string
        (600, c.END, "a"),
    )
    assert of_span(summary, "a") == {"count": 1, "total_ns": 500, "self_ns": 350, "max_ns": 500}
    b = {"count": 2, "total_ns": 150, "self_ns": 150, "max_ns": 100, "raised": 1}
    assert of_span(summary, "b") == b
    assert [span.name for span in summary.spans] == ["a", "b"]
    assert summary.length_ns == 500


def test_a_trace_lasts_from_its_first_event_to_its_last_of_any_kind(tmp_path: Path) -> None:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    made.lock(9, c.LOCK, "lock")
    spans = [event(300, c.BEGIN, made.string("f")), event(400, c.END, made.string("f"))]
    made.events(1, [event(100, c.LOCK_ACQUIRED, 9), *spans, event(700, c.LOCK_RELEASED, 9)])
    made.end(10_000)
    assert summarise(made.save(tmp_path)).length_ns == 600


def test_recursion_counts_its_time_once(tmp_path: Path) -> None:
    downward = [(at * 10, c.BEGIN, "f") for at in range(10)]
    upward = [(200 + at * 10, c.END, "f") for at in range(10)]
    summary = one_thread(tmp_path, *downward, *upward)
    assert of_span(summary, "f") == {"count": 10, "total_ns": 290, "self_ns": 290, "max_ns": 290}
    again = one_thread(tmp_path, *downward, *upward, (900, c.BEGIN, "f"), (950, c.END, "f"))
    assert of_span(again, "f")["total_ns"] == 340


def test_waits_and_suspension_are_no_time_of_the_spans_own(tmp_path: Path) -> None:
    """A greenlet waits for a lock that another greenlet of its thread holds; its wait is none of its suspension."""
    made = Made(1)
    made.track(1, c.THREAD, "hub", tid=1)
    made.track(2, c.GREENLET, "g2", parent=1)
    made.track(3, c.GREENLET, "g3", parent=1)
    made.lock(1, c.LOCK, "mutex", "m.py:1")
    holding, waiting, sleeping = (made.string(n) for n in ("holding", "waiting", "sleeping"))
    made.events(
        1,
        [
            event(0, c.SWITCH, 0, 2),
            event(100, c.BEGIN, holding),
            event(110, c.LOCK_ACQUIRED, 1),
            event(200, c.SWITCH, 0, 3),
            event(300, c.BEGIN, waiting),
            event(320, c.LOCK_WAIT, 1, 2),
            event(330, c.SWITCH, 0, 2),
            event(500, c.BEGIN, sleeping),
            event(510, c.SWITCH, 0, 1),
            event(700, c.SWITCH, 0, 2),
            event(720, c.END, sleeping),
            event(800, c.LOCK_RELEASED, 1),
            event(900, c.END, holding),
            event(910, c.SWITCH, 0, 3),
            event(920, c.LOCK_ACQUIRED, 1, 1),
            event(950, c.SWITCH, 0, 1),
            event(960, c.SWITCH, 0, 3),
            event(970, c.LOCK_RELEASED, 1),
            event(1_000, c.END, waiting),
        ],
    )
    made.end(1_000)
    summary = summarise(made.save(tmp_path))
    sleep = {"count": 1, "total_ns": 220, "self_ns": 30, "suspended_ns": 190, "max_ns": 220}
    assert of_span(summary, "sleeping") == sleep
    held = {"count": 1, "total_ns": 800, "self_ns": 800 - 220 - 130, "suspended_ns": 130, "max_ns": 800}
    assert of_span(summary, "holding") == held
    wait = {"count": 1, "total_ns": 700, "self_ns": 90, "wait_ns": 600, "suspended_ns": 10, "max_ns": 700}
    assert of_span(summary, "waiting") == wait
    (lock,) = summary.locks
    holders = (Holder("holding", 1, 600),)
    assert lock == Lock("mutex", "m.py:1", "lock", 1, 1, 600, 600, 0, 2, 740, 690, holders)


def test_waits_are_charged_to_who_held_the_lock(tmp_path: Path) -> None:
    files = []
    for pid in (1, 2):  # two processes of one program: their locks have one name and site
        made = Made(pid)
        for ring in range(1, 4):
            made.track(ring, c.THREAD, f"w{ring}", tid=ring)
        made.lock(7, c.REENTRANT, "resources", "r.py:9")
        made.lock(8, c.SEMAPHORE, "pool")
        claim = made.string("claim")
        made.events(
            1,
            [
                event(10_000, c.BEGIN, claim),
                event(20_000, c.LOCK_ACQUIRED, 7),
                event(70_000, c.LOCK_RELEASED, 7),
            ],
        )
        made.events(2, [event(30_000, c.LOCK_WAIT, 7, 1), event(75_000, c.LOCK_ACQUIRED, 7, 1)])
        made.events(3, [event(80_000, c.LOCK_WAIT, 7, 2), event(105_000, c.LOCK_GIVEN_UP, 7)])
        # A try: it waited for nothing.
        made.events(2, [event(76_000, c.LOCK_WAIT, 8), event(95_000, c.LOCK_GIVEN_UP, 8)])
        made.events(3, [event(106_000, c.LOCK_WAIT, 8), event(136_000, c.LOCK_GIVEN_UP, 8)])
        made.end(140_000)
        files.append(made)
    c.save_all(tmp_path, files)
    resources, pool = summarise(tmp_path).locks
    held_by = (Holder("claim", 2, 90_000), Holder("w2", 2, 50_000))
    assert resources == Lock(
        "resources", "r.py:9", "re-entrant lock", 2, 4, 140_000, 45_000, 2, 4, 230_000, 65_000, held_by
    )
    assert (pool.kind, pool.holders) == ("semaphore", (Holder("unknown", 2, 60_000),))


@pytest.mark.parametrize("pids", [(1, 2), (2, 1)], ids=["maker first", "other first"])
def test_a_lock_of_several_processes_is_one_and_held_by_another(
    pids: tuple[int, int], tmp_path: Path
) -> None:
    """Its maker names it; another knows it by its number only, under another id."""
    maker, other = Made(pids[0]), Made(pids[1])
    for made, thread in ((maker, "maker's"), (other, "other's")):
        made.track(1, c.THREAD, thread, tid=made.pid)
    maker.lock(3, c.LOCK, "Service.lock", "service.py:7", shared=4711)
    maker.lock(4, c.LOCK, "Service.lock", "service.py:7")
    other.lock(9, c.LOCK, "", shared=4711)
    taken, released = event(100, c.LOCK_ACQUIRED, 9), event(400, c.LOCK_RELEASED, 9)
    other.events(
        1,
        [
            event(50, c.BEGIN, other.string("holds")),
            taken,
            released,
            event(450, c.END, other.string("holds")),
        ],
    )
    maker.events(
        1, [event(200, c.LOCK_WAIT, 3), event(420, c.LOCK_ACQUIRED, 3, 1), event(500, c.LOCK_RELEASED, 3)]
    )
    summary = summarise(c.save_all(tmp_path / "t", [maker, other]), 5)
    found = {lock.instances: lock for lock in summary.locks}
    assert [(lock.name, lock.site) for lock in summary.locks] == [("Service.lock", "service.py:7")]
    lock = found[2]
    assert (lock.waits, lock.wait_ns, lock.holds, lock.hold_ns) == (1, 220, 2, 300 + 80)
    assert lock.holders == (Holder("holds", 1, 220),)


def test_idle_threads_hide_no_lock(tmp_path: Path) -> None:
    """Who waits at a queue or for a condition waits for others to act, however long."""
    made = Made(1)
    for ring, kind in enumerate((c.QUEUE, c.CONDITION, c.LOCK), start=1):
        made.track(ring, c.THREAD, f"w{ring}", tid=ring)
        made.lock(ring, kind, f"lock{kind}")
        made.events(ring, [event(10, c.LOCK_WAIT, ring), event(2_000 // ring, c.LOCK_ACQUIRED, ring, 1)])
    made.end(3_000)
    summary = summarise(made.save(tmp_path), lanes=2, parts=3)
    assert [lock.name for lock in summary.locks] == ["lock1", "lock5", "lock4"]
    assert answer(summary) == "lock1 was waited for longest (656 ns)."
    assert [(lane.name, sum(lane.wait), sum(lane.idle)) for lane in summary.lanes][-1] == ("w3", 656, 0)


def test_calls_that_leave_the_process_are_told_by_kind_or_message(tmp_path: Path) -> None:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    kind, remote, sql, rpc, local = (made.string(n) for n in ("kind", "remote", "sql", "rpc", "local"))
    events = []
    for at in range(0, 3_000, 1_000):
        events += [event(at, c.BEGIN, sql), event(0, c.ARG, kind, remote), event(at + 100, c.END, sql)]
    # Received by nobody on record, by another process, and by this one.
    for at, flow in ((4_000, 1), (5_000, 2), (6_000, 3)):
        sent = [event(at + 10, c.FLOW_OUT, rpc, flow), number(flow)]
        events += [event(at, c.BEGIN, rpc), *sent, event(at + 500, c.END, rpc)]
    events += [
        event(7_000, c.BEGIN, local),
        event(7_010, c.FLOW_IN, rpc, 3),
        number(3),
        event(7_500, c.END, local),
    ]
    made.events(1, events)
    other = Made(2)
    other.track(1, c.THREAD, "main", tid=2)
    other.events(1, [event(5_600, c.FLOW_IN, other.string("rpc"), 2), number(2)])
    summary = summarise(c.save_all(tmp_path / "t", [made, other]))
    told = [(s.name, s.remote, s.remote_ns, s.remote_max_ns) for s in summary.remote]
    assert told == [("sql", 3, 300, 100), ("rpc", 2, 1_000, 500)]


def n_plus_one(made: Made, calls: int) -> None:
    made.track(1, c.THREAD, "main", tid=1)
    page, query, helper = made.string("list_servers"), made.string("select"), made.string("helper")
    kind, remote = made.string("kind"), made.string("remote")
    events, at = [], 0
    for _ in range(2):
        events.append(event(at, c.BEGIN, page))
        for _ in range(calls):
            events += [event(at + 10, c.BEGIN, query), event(0, c.ARG, kind, remote)]
            events += [event(at + 11, c.BEGIN, helper), event(at + 12, c.END, helper)]
            events.append(event(at + 20, c.END, query))
            at += 20
        at += 100
        events.append(event(at, c.END, page))
    made.events(1, events)


@pytest.mark.parametrize(("calls", "found"), [(4, 0), (5, 1), (60, 1)])
def test_the_same_call_again_and_again_in_one_span_is_a_pattern(
    tmp_path: Path, calls: int, found: int
) -> None:
    made = Made(1)
    n_plus_one(made, calls)
    repeated = summarise(made.save(tmp_path)).repeated
    wanted = Repeated("list_servers", "select", 2, 2 * calls, calls, 20 * calls, 2 * calls)
    assert repeated == (wanted,) * found


def test_more_different_calls_than_are_told_apart_are_counted(tmp_path: Path) -> None:
    events = [(0, c.BEGIN, "all")]
    for i in range(100):
        events += [(10 + i, c.BEGIN, f"f{i}"), (10 + i, c.END, f"f{i}")]
    summary = one_thread(tmp_path, *events, (500, c.END, "all"))
    assert summary.crowded == 100 - 64
    assert any("36 calls" in note for note in summary.notes)


def test_cpu_time_is_that_between_begin_and_end(tmp_path: Path) -> None:
    summary = one_thread(
        tmp_path, (0, c.BEGIN, "f"), event(1_000, c.CPU), (500, c.END, "f"), event(1_040, c.CPU)
    )
    assert of_span(summary, "f")["cpu_ns"] == 40


def test_it_is_printed_and_given_as_json(tmp_path: Path) -> None:
    made = Made(1)
    n_plus_one(made, 50)
    made.lock(1, c.LOCK, "[bold]mutex", "x.py:3")
    made.events(2, [event(10, c.LOCK_ACQUIRED, 1), event(900, c.LOCK_RELEASED, 1)])
    made.events(3, [event(400, c.LOCK_WAIT, 1, 2), event(950, c.LOCK_ACQUIRED, 1, 1)])
    made.save(tmp_path)
    done = CliRunner().invoke(command, [str(tmp_path)], standalone_mode=False)
    assert done.exception is None
    for words in (
        "list_servers calls select up to 50 times.",
        "[bold]mutex was waited for longest (550 ns, held by thread 2)",
        "Hottest spans",
        "Most waited locks",
        "thread 2 100 %",
        "Most frequent calls that leave the process",
        "note: 1 process did not close its file",
    ):
        assert words in " ".join(done.stdout.split()), done.stdout
    done = CliRunner().invoke(command, [str(tmp_path), "--json"], standalone_mode=False)
    document = data_in(done.stdout)
    jsonschema.validate(document, schema(TraceSummary))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"more": 1}, schema(TraceSummary))
    assert document["remote"] == [{"name": "select", "calls": 100, "total_ns": 1_000, "max_ns": 10}]
    assert document["repeated"]["rows"][0]["most"] == 50
    assert document["locks"][0]["holders"] == [{"name": "thread 2", "waits": 1, "wait_ns": 550}]
    assert document["counts"]["open_at_end"] == 1


def test_what_is_empty_or_no_trace_is_said(tmp_path: Path) -> None:
    said = io.StringIO()
    print_summary(summarise(Made(1).save(tmp_path)), Console(file=said))
    assert "Nothing was recorded." in said.getvalue()
    assert "Hottest" not in said.getvalue()
    with pytest.raises(BadInput):
        summarise(tmp_path / "none")


def test_the_page_is_beside_the_trace_and_opened_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    path = Made(1).save(tmp_path)
    for source, page in ((path, path.with_suffix(".html")), (tmp_path, tmp_path / "report.html")):
        done = CliRunner().invoke(command, [str(source), "--open"], standalone_mode=False)
        assert done.exception is None
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert opened == [str(path.with_suffix(".html")), str(tmp_path / "report.html")]


def test_the_page_tells_of_the_interpreter(tmp_path: Path) -> None:
    made = Made(1)
    made.lock(1, 6, "GIL")
    made.track(2, c.THREAD, "burner", tid=2)
    made.events(1, [event(10, c.LOCK_WAIT, 1, 2), event(900, c.LOCK_ACQUIRED, 1, 1)])
    made.events(2, [event(1, c.LOCK_ACQUIRED, 1), event(890, c.LOCK_RELEASED, 1)])
    _, page, _ = write_page(made.save(tmp_path))
    assert page is not None
    assert "GIL: waited 890 ns in 1 wait, longest 890 ns, held by burner 100 %" in page.read_text(
        encoding="utf-8"
    )


def test_a_trace_in_a_place_that_takes_no_page_is_summed_up_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Made(1).save(tmp_path)
    (tmp_path / f"{path.stem}.html").mkdir()
    done = CliRunner().invoke(command, [str(path)], standalone_mode=False)
    assert done.exception is None
    assert "Nothing was recorded." in done.stdout
    assert "note: no page: cannot write" in done.stderr
    done = CliRunner().invoke(command, [str(path), "--open"], standalone_mode=False)
    assert isinstance(done.exception, HostFailed)


def test_names_cannot_break_the_table(tmp_path: Path) -> None:
    said = io.StringIO()
    print_summary(
        one_thread(tmp_path, (0, c.BEGIN, "a\nb\x1b[31m"), (9, c.END, "a\nb\x1b[31m")), Console(file=said)
    )
    assert "a\ufffdb\ufffd[31m" in said.getvalue()


def test_a_span_without_its_end_is_unfinished(tmp_path: Path) -> None:
    wanted = {"count": 1, "total_ns": 9_999, "self_ns": 9_999, "max_ns": 9_999, "unfinished": 1}
    assert of_span(one_thread(tmp_path, (1, c.BEGIN, "open")), "open") == wanted
