"""Verdicts on series with a known truth: each resource at its limit, the traps beside it, and sources that are missing.

The intensities are drawn; the seeds of the draws were not looked at when the limits were set.
"""

from __future__ import annotations

from collections.abc import Callable

import jsonschema
import numpy as np
import pytest

from contend.contention.alibi.judge import judge, phases
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi
from contend.text.shape import schema
from support.alibi_series import MS, Host, Thread

START, END = 5.0, 15.0


def verdict(host: Host, *without: str, **known: float) -> Alibi:
    tables = {name: table for name, table in host.tables().items() if name not in without}
    found = judge(Recording.of_tables(tables, known), *host.span(START, END))
    jsonschema.validate(found.to_json(), schema(Alibi))
    return found


def quiet(draw: np.random.Generator) -> Host:
    return Host(
        cpus=int(draw.choice([2, 4, 24])),
        interval=float(draw.choice([0.1, 0.25, 1.0])),
        seed=int(draw.integers(1 << 30)),
        noise=float(draw.uniform(0.005, 0.08)),
    )


def every_core(draw: np.random.Generator) -> Host:
    host = quiet(draw)
    over = draw.uniform(0, 1)
    return host.load(START, END, cores=[1.0] * host.cpus, cpu_wait=over)


def one_core_of_many(draw: np.random.Generator) -> Host:
    return quiet(draw).load(START, END, cores=[1.0], cpu_wait=draw.uniform(0.4, 1))


def one_thread(draw: np.random.Generator) -> Host:
    busy = draw.uniform(0.97, 1.0)
    thread = Thread("burner", 77, busy, busy, threads=int(draw.integers(1, 9)))
    # It wanders over the cores, so that none of them is full.
    host = quiet(draw)
    return host.load(
        START, END, cores=[1 / host.cpus] * host.cpus, threads=[thread], cpu_wait=draw.uniform(0, 0.2)
    )


def turns(draw: np.random.Generator) -> Host:
    host = quiet(draw)
    threads = int(draw.integers(2, 17))
    thread = Thread(
        "python3", 78, draw.uniform(0.97, 1.02), draw.uniform(1.2, 1.6) / threads, threads=threads
    )
    return host.load(START, END, cores=[1 / host.cpus] * host.cpus, threads=[thread])


def softirq(draw: np.random.Generator) -> Host:
    share = draw.uniform(0.8, 0.97)
    return quiet(draw).load(START, END, cores=[0.995 - share], softirq=[share])


def robbed(draw: np.random.Generator) -> Host:
    host = quiet(draw)
    steal = draw.uniform(0.15, 0.6)
    return host.load(
        START, END, cores=[(1 - steal) * draw.uniform(0.6, 1)] * host.cpus, steal=[steal] * host.cpus
    )


def queue(draw: np.random.Generator) -> Host:
    depth, slower = draw.uniform(4, 200), draw.uniform(3, 50)
    takes = 0.1 * MS * slower
    return quiet(draw).load(START, END, reads=depth * 1e9 / takes, read_ns=takes, io_wait=draw.uniform(0, 1))


def full_link(draw: np.random.Generator) -> Host:
    return quiet(draw).load(
        START, END, sent=draw.uniform(1e5, 1e9), backlog=draw.uniform(2, 1000), standing=draw.uniform(0.75, 1),
        overlimits=draw.uniform(50, 1e5),
    )  # fmt: skip


def stalls(draw: np.random.Generator) -> Host:
    stalled = draw.uniform(0.15, 1.0)
    # Pages come back from the disk: a queue that memory is to blame for.
    return quiet(draw).load(
        START, END, memory_wait=stalled, io_wait=min(1, stalled * draw.uniform(0.9, 1.5)), cgroup="/db",
        limit_bytes=1e9, memory_bytes=draw.uniform(0.98, 1) * 1e9, reads=20_000, read_ns=0.4 * MS,
    )  # fmt: skip


def quota(draw: np.random.Generator) -> Host:
    host = quiet(draw)
    kept = draw.uniform(0.2, 0.8)
    thread = Thread("app", 79, 1 - kept, 1 - kept, cgroup="/app", run_delay=kept)
    return host.load(
        START, END, cgroup="/app", throttled=kept, throttled_periods=draw.uniform(0.9, 1), cpu_wait=kept,
        cores=[1 - kept], threads=[thread],
    )  # fmt: skip


def locks(draw: np.random.Generator) -> Host:
    return quiet(draw).load(
        START, END, cores=[draw.uniform(0, 0.3)], threads=[Thread("locked", 80, 0.3, 0.1, threads=32)],
        reads=draw.uniform(0, 500), read_ns=0.1 * MS, sent=draw.uniform(0, 1e6),
    )  # fmt: skip


KINDS: dict[str, tuple[str, Callable[[np.random.Generator], Host]]] = {
    "every core": ("cpu", every_core),
    "one core of many": ("cpu", one_core_of_many),
    "one thread": ("thread", one_thread),
    "threads that take turns": ("thread", turns),
    "softirq": ("thread", softirq),
    "steal": ("steal", robbed),
    "disk queue": ("disk", queue),
    "full link": ("network", full_link),
    "memory stalls": ("memory", stalls),
    "quota": ("throttling", quota),
    "locks": ("idle", locks),
}


@pytest.mark.parametrize("kind", KINDS)
def test_names_what_was_injected(kind: str) -> None:
    truth, make = KINDS[kind]
    draw = np.random.default_rng([4711, *kind.encode()])
    found = [verdict(make(draw)).verdict for _ in range(10)]
    assert found.count(truth) >= 9, found


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "locks"])
def test_says_when(kind: str) -> None:
    truth, make = KINDS[kind]
    host = make(np.random.default_rng(5))
    whole = judge(Recording.of_tables(host.tables()))
    assert whole.verdict == truth, whole.text
    main = next(s for s in whole.saturated if s.resource == truth)
    (start, end), slack = host.span(START, END), 2.1e9
    assert abs(main.ranges[0][0] - start) <= slack and abs(main.ranges[-1][1] - end) <= slack, main.ranges
    assert abs(main.share - 0.5) < 0.15
    before = judge(Recording.of_tables(host.tables()), *host.span(0, START - 1))
    assert before.verdict == "idle", before.text


# Traps


def test_a_busy_disk_without_a_queue_is_not_saturated() -> None:
    """One request after the other: busy 100 %, and most of the time somebody waits for it."""
    found = verdict(Host().load(START, END, reads=10_000, read_ns=0.1 * MS, io_wait=0.95))
    assert found.verdict == "idle"
    assert any("without a queue" in note for note in found.notes)


def test_a_device_that_serves_many_at_once_is_not_saturated_by_many() -> None:
    """32 in flight and each as fast as alone."""
    assert verdict(Host().load(START, END, reads=32 / 0.11e-3, read_ns=0.11 * MS)).verdict == "idle"


def test_large_requests_may_take_longer() -> None:
    """1 MiB in 4 ms where 4 KiB alone took 0.1 ms: transfer, not waiting."""
    found = verdict(Host().load(START, END, reads=750, read_ns=4 * MS, read_bytes=2**20))
    assert found.verdict == "idle"
    # 32 of them in flight are a queue all the same, though how long one takes alone is not known.
    assert verdict(Host().load(START, END, reads=1500, read_ns=20 * MS, read_bytes=2**20)).verdict == "disk"


def test_without_a_lightly_loaded_time_the_queue_alone_decides_and_says_so() -> None:
    host = Host(seconds=10).load(-1, 11, reads=100_000, read_ns=0.4 * MS)
    deep = judge(Recording.of_tables(host.tables()))
    assert deep.verdict == "disk"
    assert not any("alone" in e.what for e in deep.saturated[0].evidence)
    few = Host(seconds=10).load(-1, 11, reads=10_000, read_ns=0.4 * MS)
    assert judge(Recording.of_tables(few.tables())).verdict == "idle"


def test_a_burst_in_a_network_queue_is_no_limit() -> None:
    host = Host().load(START, END, sent=1e8, backlog=50, standing=0.1, overlimits=100)
    assert verdict(host).verdict == "idle"
    # A queue that empties freely: packets were there when it was looked at, and none was refused.
    assert verdict(Host().load(START, END, sent=1e8, backlog=3, standing=0.9)).verdict == "idle"


def test_a_link_at_its_known_speed_is_full_without_a_queue() -> None:
    host = Host().load(START, END, sent=124e6)
    assert verdict(host).verdict == "idle"
    full = verdict(host, eth0=125e6)
    assert (full.verdict, full.subject) == ("network", "eth0, sending")
    assert full.idle["network"] < 0.05


def test_a_busy_thread_among_full_cores_is_not_the_limit() -> None:
    threads = [Thread("burner", 90 + n, 1, 1) for n in range(4)]
    assert verdict(Host().load(START, END, cores=[1, 1, 1, 1], threads=threads)).verdict == "cpu"


def test_a_quota_of_one_cpu_is_not_threads_that_take_turns() -> None:
    host = Host().load(
        START, END, cores=[0.5, 0.5], cgroup="/app", throttled=1.0, throttled_periods=1.0, cpu_wait=0.6,
        threads=[Thread("app", 79, 1.0, 0.5, threads=2, cgroup="/app")],
    )  # fmt: skip
    found = verdict(host)
    assert (found.verdict, found.subject) == ("throttling", "cgroup /app")
    assert all(s.resource == "throttling" for s in found.saturated)


def test_waiting_under_a_quota_is_not_waiting_for_the_cpu() -> None:
    """The kernel counts a throttled task as waiting for a CPU, also while another thread fills a core."""
    host = Host().load(
        START, END, cores=[1.0, 0.3], cpu_wait=0.7, cgroup="/app", throttled=0.7, throttled_periods=1.0,
        threads=[Thread("app", 79, 0.3, 0.3, run_delay=0.7)],
    )  # fmt: skip
    assert verdict(host).verdict == "throttling"


def test_swapping_is_memory_and_its_disk_a_consequence() -> None:
    found = verdict(stalls(np.random.default_rng(3)))
    disk = next(s for s in found.saturated if s.resource == "disk")
    assert (found.verdict, disk.cause) == ("memory", "memory")
    assert "cgroup /db, at its limit" in found.text and "because of memory" in found.text


def test_reads_that_page_faults_ask_for_are_memory_where_it_is_short() -> None:
    """Only pages that had been in use count as a stall when they come back: the rest of the reads is memory's too."""
    host = Host().load(
        START, END, memory_wait=0.2, io_wait=0.8, reads=20_000, read_ns=0.4 * MS, swap_in=4096 * 18_000
    )  # fmt: skip
    found = verdict(host)
    assert (found.verdict, found.saturated[1].cause) == ("memory", "memory")


def test_reads_of_the_cgroup_that_is_short_are_memory() -> None:
    """Read-ahead makes many requests of one fault: who reads tells."""
    short = {"cgroup": "/db", "limit_bytes": 1e9, "memory_bytes": 0.99e9}
    load = {"memory_wait": 0.2, "io_wait": 0.8, "reads": 20_000, "read_ns": 0.6 * MS}
    assert (
        verdict(Host().load(START, END, **load, **short, group_reads=0.9 * 20_000 * 4096)).verdict == "memory"
    )
    assert (
        verdict(Host().load(START, END, **load, **short, group_reads=0.1 * 20_000 * 4096)).verdict == "disk"
    )


def test_a_cgroup_at_its_limit_that_reads_most_is_short_where_little_of_it_counts_as_a_stall() -> None:
    """On a slow disk the pages that the kernel counts come back more seldom; whatever is not at its limit needs 10 %."""
    load = {"memory_wait": 0.06, "io_wait": 0.8, "reads": 20_000, "read_ns": 0.6 * MS}
    load |= {"cgroup": "/db", "limit_bytes": 1e9}
    most, few = {"group_reads": 0.9 * 20_000 * 4096}, {"group_reads": 0.1 * 20_000 * 4096}
    full, half = {"memory_bytes": 0.99e9}, {"memory_bytes": 0.5e9}
    found = verdict(Host().load(START, END, **load, **full, **most))
    assert (found.verdict, found.saturated[1].cause) == ("memory", "memory")
    assert verdict(Host().load(START, END, **load, **full, **few)).verdict == "disk"
    assert verdict(Host().load(START, END, **load, **half, **most)).verdict == "disk"
    rare = {"memory_wait": 0.01, "io_wait": 0.8}
    assert verdict(Host().load(START, END, **load | rare, **full, **most)).verdict == "disk"


def test_a_disk_beside_a_little_reclaim_is_the_disk() -> None:
    host = Host().load(START, END, memory_wait=0.12, io_wait=0.9, reads=100_000, read_ns=0.6 * MS)
    found = verdict(host)
    assert found.verdict == "disk" and not found.saturated[0].cause


def test_of_several_the_one_with_most_waiting_leads() -> None:
    host = Host().load(START, END, cores=[1] * 4, cpu_wait=0.95, reads=30_000, read_ns=0.25 * MS, io_wait=0.1)
    found = verdict(host)
    assert [s.resource for s in found.saturated] == ["cpu", "disk"]
    assert found.saturated[0].waited > found.saturated[1].waited


def test_a_short_saturation_is_told_and_does_not_decide() -> None:
    host = Host().load(START, START + 1.5, cores=[1] * 4, cpu_wait=1.0)
    found = verdict(host)
    assert (found.verdict, found.saturated[0].resource) == ("idle", "cpu")
    assert found.saturated[0].share < 0.2 and "Also cpu" in found.text


def test_threads_of_virtual_machines_and_of_softirqs_are_named_as_such() -> None:
    for name, said in (("qemu-system-x86", "vCPU"), ("ksoftirqd/3", "softirq on CPU 3")):
        host = Host().load(START, END, cores=[0.25] * 4, threads=[Thread(name, 90, 1.0, 1.0, threads=4)])
        assert said in verdict(host).subject


# What is missing is said


def test_what_could_not_be_judged_is_said() -> None:
    calm = Host()
    assert verdict(calm).unknown == ()
    assert any("qdisc" in u for u in verdict(calm, "qdisc").unknown)
    assert any("quota" in u for u in verdict(calm, "cgroup_use").unknown)
    for table in ("cpu", "disk", "host"):
        found = verdict(calm, table)
        assert found.verdict == "unknown" and found.unknown, table
    assert "no network queue" not in verdict(calm, "qdisc").text


def test_without_processes_a_wandering_thread_makes_it_unknown() -> None:
    host = Host().load(START, END, cores=[0.25] * 4, threads=[Thread("burner", 77, 1.0, 1.0)])
    assert verdict(host).verdict == "thread"
    assert verdict(host, "process_use").verdict == "unknown"
    # On one core it is seen without knowing whose it is.
    pinned = verdict(Host().load(START, END, cores=[1.0]), "process_use")
    assert (pinned.verdict, "CPU 0" in pinned.subject) == ("thread", True)
    # Less than one CPU in all cannot hide a full thread.
    assert verdict(Host().load(START, END, cores=[0.5]), "process_use").verdict == "idle"


def test_waiting_beside_idle_cores_without_cgroups_is_not_called_idle() -> None:
    host = quota(np.random.default_rng(8))
    assert verdict(host, "cgroup_use").verdict == "unknown"


def test_without_pressure_run_delay_and_reclaim_speak() -> None:
    host = one_core_of_many(np.random.default_rng(2))
    host.loads[0].threads = [
        Thread("app", 70, 0.5, 0.5, run_delay=0.6),
        Thread("b", 71, 0.5, 0.5, run_delay=0.6),
    ]
    tables = host.tables()
    for column in ("psi_cpu_some_ns", "psi_io_some_ns", "psi_memory_some_ns"):
        del tables["host"][column]
    assert judge(Recording.of_tables(tables), *host.span(START, END)).verdict == "cpu"
    swapping = Host().load(START, END, swap_in=1e7, direct_scans=1e4)
    tables = swapping.tables()
    del tables["host"]["psi_memory_some_ns"]
    assert judge(Recording.of_tables(tables), *swapping.span(START, END)).verdict == "memory"


def test_no_samples_no_verdict() -> None:
    assert judge(Recording.of_tables({})).verdict == "unknown"
    host = Host()
    outside = judge(Recording.of_tables(host.tables()), *host.span(100, 110))
    assert outside.verdict == "unknown" and "no sample" in outside.text
    # A phase shorter than the interval is judged by the interval that holds it.
    busy = Host(interval=1.0).load(0, 20, cores=[1] * 4, cpu_wait=0.9)
    assert judge(Recording.of_tables(busy.tables()), *busy.span(7.3, 7.6)).verdict == "cpu"


def test_a_cpu_that_goes_offline_and_a_counter_that_restarts_do_no_harm() -> None:
    host = Host().load(START, END, cores=[1] * 4, cpu_wait=0.9)
    tables = host.tables()
    cpu = tables["cpu"]
    kept = ~((cpu["cpu"] == 3) & (cpu["t_ns"] > host.span(10, 0)[0]))
    tables["cpu"] = {column: values[kept] for column, values in cpu.items()}
    restarted = tables["disk"]["reads"]
    restarted[len(restarted) // 2 :] = 0
    assert verdict_of(tables, host) == "cpu"


def verdict_of(tables: dict, host: Host) -> str:
    return judge(Recording.of_tables(tables), *host.span(START, END)).verdict


# Phases


def test_a_recording_is_cut_where_its_verdict_changes() -> None:
    host = Host(seconds=60)
    host.load(10, 25, cores=[1] * 4, cpu_wait=0.9).load(40, 55, reads=100_000, read_ns=0.6 * MS)
    found = phases(Recording.of_tables(host.tables()))
    assert [p.verdict for p in found] == ["idle", "cpu", "idle", "disk", "idle"]
    origin = host.span(0, 0)[0]
    bounds = [(p.start_ns - origin) / 1e9 for p in found]
    assert np.abs(np.array(bounds) - [0, 10, 25, 40, 55]).max() < 1.1
    assert [p.end_ns for p in found[:-1]] == [p.start_ns for p in found[1:]]


def test_jitter_makes_no_phases() -> None:
    host = Host(seconds=30)
    for at in range(3, 30, 5):
        host.load(at, at + 0.6, cores=[1] * 4, cpu_wait=1.0)
    assert [p.verdict for p in phases(Recording.of_tables(host.tables()))] == ["idle"]
    assert phases(Recording.of_tables({})) == ()


def test_reads_the_files_of_a_run(tmp_path) -> None:
    import duckdb

    host = every_core(np.random.default_rng(6))
    for name, table in host.tables().items():
        half = len(table["t_ns"]) // 2
        for number, part in enumerate((slice(0, half), slice(half, None))):
            rows = {column: values[part] for column, values in table.items()}
            with duckdb.connect() as connection:
                connection.register("rows", rows)
                connection.execute(f"COPY rows TO '{tmp_path}/{name}-{number:04d}.parquet'")
    found = judge(Recording.of_directory(tmp_path), *host.span(START, END))
    assert found == judge(Recording.of_tables(host.tables()), *host.span(START, END))
    assert found.verdict == "cpu"
