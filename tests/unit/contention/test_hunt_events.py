"""The tables of a hunt: of real threads with a known truth, in the forms that others take."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from contend.contention.events import TABLES, Events, read
from contend.errors import BadInput

PROGRAM = """
import sys, threading, time
from contend import trace
trace.start(sys.argv[1], clock="monotonic", overflow="block")
lock, work = trace.Lock(name="L"), trace.Queue(name="work")
held, told = threading.Event(), threading.Event()
def worker():
    while (item := work.get()) is not None:
        with trace.span("serve"):
            time.sleep(0.02)
            item.put(True)
def slow():
    with trace.job("boot", server="a"), lock, trace.span("hold"):
        held.set()
        told.wait()
        time.sleep(0.05)
def victim():
    with trace.job("boot", server="b"), trace.span("claim"):
        held.wait()
        told.set()
        with lock:
            done = trace.Queue(name="done")
            work.put(done)
            done.get()
threads = [threading.Thread(target=f, name=f.__name__) for f in (worker, slow, victim)]
for thread in threads: thread.start()
for thread in threads[1:]: thread.join()
work.put(None)
threads[0].join()
trace.stop()
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hunt") / "trace"
    subprocess.run([sys.executable, "-c", PROGRAM, str(directory)], check=True)
    return directory


@pytest.fixture(scope="module")
def events(trace: Path) -> Events:
    return read(trace)


def test_what_is_marked_is_a_job_and_what_a_worker_does_for_it_is_its_too(events: Events) -> None:
    jobs = {row["track"]: row for row in events.jobs.rows()}
    assert sorted(jobs) == ["slow", "victim"]
    assert {row["how"] for row in jobs.values()} == {"mark"} and events.how == "mark"
    assert jobs["slow"]["elsewhere_ns"] == 0
    assert 20e6 <= jobs["victim"]["elsewhere_ns"] < jobs["victim"]["end_ns"] - jobs["victim"]["begin_ns"]
    assert events.chosen == "2 jobs (boot): marked as jobs"


def test_waits_are_charged_to_what_the_holder_did_and_rows_add_up(events: Events) -> None:
    [lock] = [row for row in events.locks.rows() if row["name"] == "L"]
    assert (lock["kind"], lock["waits"], lock["holds"]) == ("lock", 1, 2)
    blame = [row for row in events.blame.rows() if row["lock"] == lock["lock"]]
    assert {row["victim"] for row in blame} == {"claim"}
    by_hold = sum(row["ns"] for row in blame if (row["doing"], row["culprit"]) == ("span", "hold"))
    # After the lock is let go the victim may have to wait for a CPU: that is nobody's doing.
    after = sum(row["ns"] for row in blame if row["doing"] == "nobody")
    assert by_hold >= 45e6 and by_hold >= 0.98 * (lock["wait_ns"] - after)
    assert {(row["doing"], row["culprit"]) for row in blame} <= {
        ("span", "hold"),
        ("track", "slow"),
        ("nobody", ""),
    }
    assert events.blame["ns"].sum() == events.waits["ns"].sum() == events.locks["wait_ns"].sum()


def test_jobs_are_spans_of_a_name_if_asked_for(trace: Path) -> None:
    events = read([trace], jobs="s?rv*")
    assert [(row["name"], row["how"], row["track"]) for row in events.jobs.rows()] == [
        ("serve", "pattern", "worker")
    ]
    with pytest.raises(BadInput, match="called 'nothing'"):
        read(trace, jobs="nothing")


def test_tables_can_be_asked_in_sql_and_taken_by_arrow_libraries(events: Events) -> None:
    columns, rows = events.query("select name, count(*) as n from jobs group by name")
    assert (columns, rows) == (["name", "n"], [("boot", 2)])
    with pytest.raises(BadInput) as refused:
        events.query("select nothing from jobs")
    assert "blame" in str(refused.value.hint)
    assert "arrow_array_stream" in repr(events.jobs.__arrow_c_stream__())


def test_the_command_line_asks_them_too(trace: Path) -> None:
    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "from contend.cli import main; main()"
        command = [sys.executable, "-c", code, "sql", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    query = "select name, count(*) as n from jobs group by name"
    done = ask(str(trace), query, "--job", "serv*", "--csv")
    assert (done.returncode, done.stdout.split()) == (0, ["name,n", "serve,1"])
    refused = ask("/proc/self", query, "--job", "x")
    assert refused.returncode == 2 and "is not a run directory" in refused.stderr


def test_every_column_is_in_the_reference(events: Events) -> None:
    text = (Path(__file__).parents[3] / "docs/reference/hunt-tables.md").read_text()
    sections = {part.split("\n", 1)[0]: part for part in text.split("\n## ")[1:]}
    assert list(sections) == list(TABLES) == list(events.tables)
    for name, table in events.tables.items():
        first = re.findall(r"^\| (.+?) \|", sections[name], re.M)[1:]
        listed = [column for cell in first for column in cell.split(", ")]
        assert listed == table.column_names, name


def test_parts_and_paths_add_up_to_each_job_and_to_all_of_them(events: Events) -> None:
    _, rows = events.query(
        "select end_ns - begin_ns, (select sum(ns) from parts p where p.job = j.job),"
        " (select sum(ns) from critical c where c.job = j.job) from jobs j"
    )
    assert len(rows) == 2 and all(len(set(row)) == 1 for row in rows)
    makespan = events.jobs["end_ns"].max() - events.jobs["begin_ns"].min()
    assert sum(row["ns"] for row in events.critical.rows() if row["job"] == -1) == makespan


def test_the_victims_path_leads_to_the_holder_and_to_the_worker(events: Events) -> None:
    [victim] = [row["job"] for row in events.jobs.rows() if row["track"] == "victim"]
    parts = {(row["kind"], row["resource"]): row["ns"] for row in events.parts.rows() if row["job"] == victim}
    assert parts["lock", "L"] >= 45e6
    path = {
        (row["kind"], row["part"], row["through"]): row["ns"]
        for row in events.critical.rows()
        if row["job"] == victim
    }
    after = path.get(("lock", "claim", "L"), 0)  # the lock was free, and the victim without a CPU
    assert (
        path["running", "hold", "L"] >= 0.98 * (parts["lock", "L"] - after)
        and path["running", "hold", "L"] >= 45e6
    )
    served = [ns for (kind, part, _), ns in path.items() if (kind, part) == ("running", "serve")]
    assert sum(served) >= 19e6


def test_the_worker_is_a_pool_of_one(events: Events) -> None:
    [pool] = events.pools.to_pylist()
    assert (pool["name"], pool["workers"], pool["queues"], pool["policy"]) == ("work", 1, 1, "shared")
    assert pool["items"] == 2 and pool["busy_ns"] >= 20e6  # the second one says that there are no more
