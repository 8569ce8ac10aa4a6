"""The arithmetic of blame on rows made up."""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest

from contend.advice.finding import Treatment
from contend.contention import blame as b
from contend.contention.alert import judge
from contend.contention.correlation import correlated
from contend.contention.findings import findings
from contend.contention.groups import Namer, matches
from contend.report.watch_words import answer
from support import blame_rows as made
from support.blame_rows import S


def test_a_row_sums_to_the_victims_waits_and_only_neighbours_cost_it_something() -> None:
    [period] = b.periods(
        made.tables(
            [
                (S, "cpu", "a", "b", 500),
                (S, "cpu", "a", "a", 200),
                (S, "cpu", "a", b.IDLE, 30),
                (S, "cpu", "a", b.OWN_QUOTA, 70),
                (S, "cpu", "a", b.EARLIER, 11),
                (S, "disk", "a", b.WRITEBACK, 40),
            ],
            {(S, "cpu", "b"): 900},
        ),
        0,
    )
    assert period.groups["cpu", "a"] == b.Sums(wait_ns=811, waits=5, lost_ns=500)
    assert period.groups["disk", "a"].lost_ns == 40
    assert period.groups["cpu", "b"] == b.Sums(used_ns=900)
    assert sum(ns for pair, ns in period.pairs.items() if pair[:2] == ("cpu", "a")) == 811


def test_ticks_make_periods_that_follow_each_other() -> None:
    rows = [(3 * S, "cpu", "a", "b", 1), (S, "cpu", "a", "b", 1)]
    assert [(p.start_ns, p.end_ns) for p in b.periods(made.tables(rows), S // 2)] == [
        (S // 2, S),
        (S, 3 * S),
    ]
    assert list(b.periods({}, 0)) == []


def test_processes_of_one_machine_get_its_name_and_their_charges_add_up() -> None:
    rows = [(S, "cpu", "a1", "b", 3), (S, "cpu", "a2", "b", 4), (S, "cpu", "a1", "a2", 5)]
    [period] = b.periods(made.tables(rows), 0, lambda name: name[0])
    assert period.pairs == {("cpu", "a", "b"): 7, ("cpu", "a", "a"): 5}
    assert period.groups["cpu", "a"].lost_ns == 7


def test_the_share_is_of_the_period_or_of_what_was_wanted_where_that_is_more() -> None:
    assert b.Sums(wait_ns=400, lost_ns=400, used_ns=100).share(1000) == 0.4
    # Eight threads that waited half of the time each wanted eight CPUs' time.
    assert b.Sums(wait_ns=4000, lost_ns=4000, used_ns=4000).share(1000) == 0.5


def test_a_long_watch_keeps_its_sums_and_bounded_memory() -> None:
    blame = b.Blame()
    number = 3 * b.PERIODS + 7
    for n in range(number):
        period = b.Period(n * S, (n + 1) * S)
        period.of("cpu", "a").add(b.Sums(wait_ns=S // 5, waits=1))
        period.charge("cpu", "a", "b", S // 5)
        blame.add(period)
    assert len(blame.apart) <= b.PERIODS + 1
    assert sum(p.length_ns for p in blame.apart) == blame.length_ns == number * S
    assert sum(p.groups["cpu", "a"].waits for p in blame.apart) == number
    # Whole ones all cover as much; the share is what it was.
    assert {p.length_ns for p in blame.apart[:-1]} == {blame.joined * S}
    assert blame.share("cpu", "a").value == pytest.approx(0.2)
    assert blame.culprits("cpu", "a") == [("b", number * (S // 5))]


def test_too_many_pairs_are_folded_and_rows_keep_their_sums() -> None:
    blame = b.Blame()
    period = b.Period(0, S)
    for n in range(b.PAIRS + 10):
        victim = f"v{n % 50}"
        period.of("cpu", victim).wait_ns += n
        period.charge("cpu", victim, f"c{n}", n)
    blame.add(period)
    assert blame.whole is not None
    assert len(blame.whole.pairs) <= b.PAIRS
    for victim in ("v0", "v49"):
        row = blame.culprits("cpu", victim)
        assert b.row_sum(row) == blame.sums("cpu", victim).wait_ns
        assert b.OTHERS in dict(row)


def test_a_flood_of_victims_is_bounded_too() -> None:
    blame = b.Blame()
    period = b.Period(0, S)
    total = 0
    for n in range(2 * b.PAIRS):
        period.of("cpu", f"v{n}").wait_ns += n
        period.charge("cpu", f"v{n}", "c", n)
        total += n
    blame.add(period)
    assert blame.whole is not None
    assert len(blame.whole.pairs) <= b.PAIRS
    assert sum(s.wait_ns for s in blame.whole.groups.values()) == total
    assert blame.victims("cpu")[0] == f"v{2 * b.PAIRS - 1}"


def test_the_interval_holds_the_mean_of_a_series_that_remembers_itself() -> None:
    """AR(1) with φ = 0.5 around 0.3: as if independent, an interval of 40 would hold it in three quarters."""
    chance = random.Random(4711)
    held = 0
    for _ in range(400):
        x, series = 0.0, []
        for _ in range(40):
            x = 0.5 * x + chance.gauss(0, 0.05)
            series.append(0.3 + x)
        estimate = b.mean_share(series)
        held += estimate.low <= 0.3 <= estimate.high
    assert 0.86 * 400 <= held <= 0.99 * 400


def test_few_samples_give_no_interval_and_constant_ones_a_point() -> None:
    assert b.mean_share([0.5] * (b.FEWEST - 1), 0.2).verdict == "too few"
    still = b.mean_share([0.25] * 10, 0.2)
    assert (still.low, still.high, still.verdict) == (0.25, 0.25, "higher")
    assert b.mean_share([]).value == 0


def test_the_alert_needs_the_whole_interval() -> None:
    steady = made.watched(made.steady())
    crossed = judge(steady, 0.2)
    assert (crossed.verdict, crossed.exit_code, crossed.because) == (
        "crossed",
        4,
        (("cpu", "/web.service"),),
    )
    assert judge(steady, 0.2, lambda name: name == "/db.service").exit_code == 0
    assert judge(steady, 0.5).verdict == "not crossed"
    unsteady = [(n * S, "cpu", "a", "b", S // 2 if n % 5 == 0 else 1) for n in range(1, 11)]
    assert judge(made.watched(unsteady), 0.1).exit_code == 5
    assert judge(made.watched(made.steady(3)), 0.2).exit_code == 5
    assert judge(made.watched(made.steady(), kind="correlation"), 0.2).exit_code == 5


def test_an_alert_needs_somebody_in_its_scope() -> None:
    steady = made.watched(made.steady())
    typo = judge(steady, 0.2, lambda name: matches("/wbe.service", name))
    assert (typo.verdict, typo.exit_code) == ("cannot tell", 5) and "without SCOPE" in typo.reason
    assert judge(made.watched([]), 0.2).exit_code == 5
    assert "Nobody in /wbe.service ran or waited" in answer(
        made.report(steady, scope="/wbe.service", keep=lambda name: matches("/wbe.service", name))
    )
    # Who ran and never waited is there, and lost nothing.
    ran = made.tables(made.steady(), {(n * S, "cpu", "/calm.service"): 5 for n in range(1, 11)})
    calm = made.watched([])
    for period in b.periods(ran, 0):
        calm.blame.add(period)
    assert judge(calm, 0.2, lambda name: name == "/calm.service").verdict == "not crossed"
    for period in b.periods(made.tables([], {(S, "cpu", "/calm.service"): 5}), 0):
        once = made.watched([])
        once.blame.add(period)
        assert judge(once, 0.2).reason.startswith("too few intervals")


def test_findings_name_the_culprit_and_say_how_to_check() -> None:
    found = findings(made.watched(made.steady()))
    first = found[0]
    assert first.subject == "/web.service"
    assert "/batch.service (100 %" in first.sentence
    assert "systemctl set-property batch.service" in first.advice
    assert first.verify == "contend watch /web.service --by cgroup --for 30s"
    assert {f.resource for f in found} == {"run queue", "disk queue"}
    assert "dirt" in next(f for f in found if f.resource == "disk queue").advice


def test_processes_of_the_root_are_told_apart_from_cgroups() -> None:
    """The kernel's threads among them: what these do, they do for others."""
    waits = (
        ("/web.service", "backup:7", S // 2),
        ("/web.service", "kswapd0:9", S // 4),
        ("cron:5", "kswapd0:9", S // 2),
    )
    rows = [(n * S, "cpu", *wait) for n in range(1, 9) for wait in waits]
    by_victim = {finding.subject: finding for finding in findings(made.watched(rows))}
    assert by_victim["/web.service"].treatment == Treatment("/web.service", "7", "auto")
    assert by_victim["cron:5"].verify == "contend watch cron --by cgroup --for 30s"
    assert by_victim["cron:5"].advice.startswith(
        "kswapd0:9 is a thread of the kernel: find whose work it does"
    )


def test_who_is_nice_already_is_not_told_to_be() -> None:
    rows = [(n * S, "cpu", "web:11", "batch:12", S // 2) for n in range(1, 9)]
    watched = made.watched(rows)
    watched.by = "process"
    assert "(cpu.weight, cpu.max; nice, if both are of one session)" in findings(watched)[0].advice
    watched.namer.niced = {"batch:12": 10}
    assert findings(watched)[0].advice == (
        "give web:11 CPUs of its own (taskset, cpuset), or hold batch:12 back (at nice 10 it gives way already: cpu.max)"
    )
    watched.namer.niced = {"batch:12": 10, "web:11": 15}
    assert findings(watched)[0].advice == (
        "web:11 gives way by its own nice value of 15: if it should not, renice -n 0 -p $(ls /proc/11/task);"
        " or give it CPUs of its own (taskset, cpuset)"
    )


def test_a_namer_finds_out_who_is_nice() -> None:
    with subprocess.Popen(["nice", "-n", "7", "sleep", "60"]) as process:
        namer = Namer()
        deadline = time.monotonic() + 10
        nicer = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 7)
        while os.getpriority(os.PRIO_PROCESS, process.pid) != nicer and time.monotonic() < deadline:
            time.sleep(0.01)
        assert namer(f"sleep:{process.pid}") == f"sleep:{process.pid}"
        assert namer.niced == {f"sleep:{process.pid}": nicer}
        process.kill()
    assert Namer(asks=False)(f"sleep:{process.pid}") and namer(f"gone:{process.pid}")


def test_a_victim_of_its_own_limit_accuses_nobody() -> None:
    rows = [(n * S, "cpu", "/web", b.OWN_QUOTA, S // 2) for n in range(1, 9)]
    [finding] = findings(made.watched(rows))
    assert finding.kind == "throttled"
    assert finding.share == 1.0
    assert "cpu.max" in finding.advice


def use(t: int, pid: int, threads: int, cpu: int, delay: int) -> dict[str, object]:
    return {
        "t_ns": t, "pid": pid, "name": f"p{pid}", "cgroup": "/", "threads": threads, "user_ns": cpu, "system_ns": 0,
        "run_delay_ns": delay, "voluntary": 1, "involuntary": 2,
    }  # fmt: skip


def test_without_bpf_a_victims_delay_is_divided_by_cpu_time_and_nothing_is_lost() -> None:
    import numpy as np

    rows = [use(S, 1, 1, 100, 900), use(S, 2, 1, 600, 0), use(S, 3, 2, 300, 50)]
    table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    [period] = correlated({"process_use": table}, 0, "process")
    assert period.pairs["cpu", "p1:1", "p2:2"] == 600
    assert ("cpu", "p1:1", "p1:1") not in period.pairs, "a thread does not wait for itself"
    assert period.pairs["cpu", "p3:3", "p3:3"] == 15
    for victim, delay in (("p1:1", 900), ("p3:3", 50)):
        assert sum(ns for (_, v, _), ns in period.pairs.items() if v == victim) == delay
    assert period.groups["cpu", "p1:1"] == b.Sums(wait_ns=900, waits=3, used_ns=100, lost_ns=900)
    assert [*correlated({"process_use": table}, 0, "cgroup")] == [period], (
        "the root's processes have no group"
    )


def test_without_bpf_throttled_time_is_the_quotas_and_not_a_neighbours() -> None:
    """The group of the first was held for 700 of the 900 that it waited; the second waited less than its group was held."""
    import numpy as np

    rows = [use(S, 1, 1, 100, 900) | {"cgroup": "/a"}, use(S, 2, 1, 600, 50) | {"cgroup": "/b"}]
    table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    groups = {"t_ns": np.array([S, S]), "cgroup": np.array(["/a", "/b"]), "throttled_ns": np.array([700, 80])}
    for by, first, second in (("process", "p1:1", "p2:2"), ("cgroup", "/a", "/b")):
        [period] = correlated({"process_use": table, "cgroup_use": groups}, 0, by)  # type: ignore[arg-type]
        assert period.pairs["cpu", first, b.OWN_QUOTA] == 700
        assert period.pairs["cpu", first, second] == 200
        assert period.pairs["cpu", second, b.OWN_QUOTA] == 50
        assert ("cpu", second, first) not in period.pairs or period.pairs["cpu", second, first] == 0


@pytest.mark.parametrize(
    ("threads", "cpus", "used", "delay", "throttled", "held"),
    [
        # Both were held for 0.4 s, which the kernel counts twice, and waited 0.3 s each for somebody else.
        (2, 2, 600, 1400, 800, 800),
        (2, 8, 600, 1400, 800, 800),
        # Of four on two CPUs all waited meanwhile.
        (4, 2, 600, 3400, 800, 1600),
        (1, 2, 300, 700, 400, 400),
    ],
)
def test_without_bpf_a_quota_over_several_cpus_takes_no_more_than_its_part(
    threads: int, cpus: int, used: int, delay: int, throttled: int, held: int
) -> None:
    """In ms of one second."""
    import numpy as np

    ms = S // 1000
    rows = [
        use(S, 1, threads, used * ms, delay * ms) | {"cgroup": "/a"},
        use(S, 2, 1, 900 * ms, 0) | {"cgroup": "/b"},
    ]
    table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    groups = {"t_ns": np.array([S]), "cgroup": np.array(["/a"]), "throttled_ns": np.array([throttled * ms])}
    tables = {"process_use": table, "cgroup_use": groups}
    [period] = correlated(tables, 0, "cgroup", cpus=cpus)  # type: ignore[arg-type]
    assert period.pairs["cpu", "/a", b.OWN_QUOTA] == pytest.approx(held * ms, rel=0.01)
    assert period.pairs.get(("cpu", "/a", "/b"), 0) > 0
