"""What is told and advised of a slowed victim, and what is expected of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from contend.document import CellResult, Control, Work, Worked
from contend.platforms.quotas import Quota
from contend.probes.observed import Observations
from contend.store.cells import Application, Values, values_of
from contend.studies.interference.findings import findings as advise
from contend.studies.interference.findings import jointly, narrowed
from contend.units import format_times
from support.slowed import DISK, ESTIMATE, METRIC, REPEAT, WAITED, cell, stolen, study

OWN = Quota("/sys/fs/cgroup/a", 2.0, "own", 0.7, 10)
ABOVE = replace(OWN, whose="above")
DEARER = {"wall": 2.0, "cpu": 1.5}, {"wall": 1.0, "cpu": 0.9}
HELD = {"wall": 2.0, "throttled": 1.0}, {"wall": 1.0, "throttled": 0.0}
STOLEN = {"wall": 2.0, **stolen(1.0)}, {"wall": 1.0, **stolen(0.0)}
QUEUED = {**DISK, "wall": 2.0, "disk_await": 1.9}, DISK
NOTHING = {"wall": 2.0}, {"wall": 1.0}


def queued(slowdown: float = 2.0, victim: str = "fio", **more: object) -> CellResult:
    found = cell({"wall": 2.0, "own_psi_cpu": 0.8}, {"wall": 1.0, "own_psi_cpu": 0.0}, slowdown, **more)
    return replace(found, factors={"victim": victim, "neighbour": "stress-cpu"})


def control(victim: str, *, alarm: bool, primary: bool = True) -> Control:
    metric = replace(METRIC, primary=primary)
    return Control({"victim": victim}, metric, ESTIMATE, 0.05, alarm)


def test_findings_are_of_slowed_headline_metrics_the_worst_first() -> None:
    minor = replace(queued(9.0), metric=replace(METRIC, primary=False))
    same = replace(queued(8.0), estimate=replace(ESTIMATE, value=8.0, low=0.5, high=9.0, verdict="undecided"))
    results = [queued(2.0, "a"), minor, same, queued(3.0, "b"), queued(2.5, "c")]
    controls = [control("b", alarm=True), control("a", alarm=False), control("c", alarm=True, primary=False)]
    found = advise(study(), results, controls, REPEAT)
    assert [(f.id, f.subject, f.estimate.value) for f in found] == [
        ("F1", "b", 3.0),
        ("F2", "c", 2.5),
        ("F3", "a", 2.0),
    ]
    assert ["alarm" in f.sentence for f in found] == [True, False, False]
    assert [(f.kind, f.resource) for f in found] == [("run-queue", "run queue")] * 3
    assert found[2].share == pytest.approx(0.8)
    assert "slowed 2.00× [1.90, 2.10]" in found[2].sentence and "unexplained 20 %" in found[2].sentence


def test_what_nothing_explains_is_said_to_be_unexplained() -> None:
    (finding,) = advise(study(), [cell({"wall": 2.0}, {"wall": 1.0})], [], REPEAT)
    assert finding.share is None
    assert (finding.kind, finding.resource, finding.evidence) == ("unexplained", "unexplained", ())
    assert "unexplained 100 %" in finding.sentence


def test_what_the_neighbour_burnt_is_evidence_too() -> None:
    seen = Observations({"wall": (2.0, "s"), "other": (1.0, "s")}, {"stress-cpu": (1.9, "s")})
    result = cell({"wall": 2.0}, {"wall": 1.0}, evidence=seen)
    (finding,) = advise(study(), [result], [], REPEAT)
    assert [(e.what, e.value, e.unit) for e in finding.evidence] == [
        ("neighbour stress-cpu burnt meanwhile", 1.9, "s")
    ]


@pytest.mark.parametrize(
    ("seen", "placement", "quotas", "advises", "verifies"),
    [
        (WAITED, "same-cpu", (), "CPUs of its own", "--set placement=own-cores"),
        (DEARER, "same-cpu", (), "CPUs of its own", "--set placement=own-cores"),
        (WAITED, "same-host", (), "too few CPUs", "--set placement=own-cores"),
        (DEARER, "same-host", (), "step by step", "--set placement=own-cores"),
        (WAITED, "own-cores", (), "somebody else had", None),
        (HELD, "same-cpu", (), "fio's CPU quota", "--set platform.cpus=null"),
        (HELD, "same-cpu", (OWN,), "fio's CPU quota", "--set platform.cpus=null"),
        (HELD, "same-cpu", (ABOVE,), "2 CPUs in /sys/fs/cgroup/a", None),
        (STOLEN, "same-cpu", (), "dedicated", ""),
        (QUEUED, "same-cpu", (), "400 IOPS", "--set neighbours.stress-cpu.limit.iops=400"),
        (NOTHING, "same-cpu", (), "step by step", "--set placement=own-cores"),
        (NOTHING, "own-cores", (), "hosts that share less", "--set neighbours=stress-cache,stress-memory"),
    ],
)
def test_each_cause_has_its_remedy_and_the_command_that_tries_it(
    seen: tuple[dict[str, float], dict[str, float]],
    placement: str,
    quotas: tuple[Quota, ...],
    advises: str,
    verifies: str | None,
) -> None:
    (finding,) = advise(study(placement), [cell(*seen, quotas=quotas)], [], REPEAT)
    assert advises in finding.advice
    wanted = REPEAT if verifies is None else f"{REPEAT} {verifies}" if verifies else ""
    assert finding.verify == wanted


@pytest.mark.parametrize(
    ("seen", "placement", "quotas", "expects"),
    [
        (WAITED, "same-cpu", (), (1.2, 1.0 + 0.1 * 0.9, 1 + 0.3 * 1.1)),  # 80 % is gone, give or take 10
        (HELD, "same-cpu", (OWN,), (1.0, 1 - 0.1 * 0.9, 1 + 0.1 * 1.1)),
        (QUEUED, "same-cpu", (), (1 / 0.9 + 0.1, 1 / 0.9, 1 / 0.9 + 0.2 * 1.1)),
        (HELD, "same-cpu", (ABOVE,), None),  # the quota is somebody's else
        (STOLEN, "same-cpu", (), None),
        (NOTHING, "same-cpu", (), None),
        (WAITED, "own-cores", (), None),
    ],
)
def test_what_remains_without_the_cause_is_expected(
    seen: tuple[dict[str, float], dict[str, float]],
    placement: str,
    quotas: tuple[Quota, ...],
    expects: tuple[float, float, float] | None,
) -> None:
    (finding,) = advise(study(placement), [cell(*seen, quotas=quotas)], [], REPEAT)
    if expects is None:
        assert finding.expected is None
        return
    assert finding.expected is not None
    left = finding.expected.estimate
    assert (left.value, left.low, left.high) == pytest.approx(expects)
    assert finding.expected.beside == ("stress-cpu",)


def test_what_is_expected_is_no_surer_than_the_share() -> None:
    """Of a share that trials differ by 30 points about, removal brings as little, or as much."""
    now, before = WAITED
    [sure] = advise(study(), [cell(now, before)], [], REPEAT)
    [cause] = sure.causes
    assert (cause.low, cause.high) == (None, None)

    def work(time: float, waited: float) -> Work:
        return Work(time, Observations({"wall": (time, "s"), "run_delay": (waited, "s")}))

    without = tuple((work(2.0, waited), work(1.0, 0.0)) for waited in (0.75, 0.80, 0.85))
    of_three = Worked(work(2.0, 0.8), work(1.0, 0.0), without)
    [unsure] = advise(study(), [cell({"wall": 2.0}, {"wall": 1.0}, worked=of_three)], [], REPEAT)
    [cause] = unsure.causes
    half = (
        4.3027 * (2 * (0.05**2 + 0.05**2) / 3) ** 0.5
    )  # Student's for two, and the jackknife's standard error
    assert (cause.low, cause.high) == (pytest.approx(0.8 - half, abs=1e-4), 1.0)
    assert unsure.expected is not None and sure.expected is not None
    left = unsure.expected.estimate
    assert left.value == pytest.approx(sure.expected.estimate.value)
    assert left.high == pytest.approx(1 + (0.2 + half) * 1.1, abs=1e-4)
    assert left.low == pytest.approx(1 + (0.2 - half) * 0.9, abs=1e-4)


@pytest.mark.parametrize(
    ("iops", "limit"), [(12_340.0, "1200"), (12_540.0, "1300"), (900.0, "100"), (10.0, "100")]
)
def test_the_advised_limit_leaves_nine_tenths_of_the_disk_in_round_numbers(iops: float, limit: str) -> None:
    now, before = QUEUED
    (finding,) = advise(study(), [cell({**now, "disk_iops": iops}, before)], [], REPEAT)
    assert finding.verify.endswith(f"limit.iops={limit}")


@pytest.mark.parametrize("neighbour", ["fio writes", "fio limited to iops=5", "fio"])
def test_a_limit_is_set_on_the_neighbour_s_workload(neighbour: str) -> None:
    factors = {"victim": "nginx", "neighbour": neighbour}
    result = replace(cell(*QUEUED), factors=factors, values=values_of(factors))
    (finding,) = advise(study(), [result], [], REPEAT)
    assert " --set neighbours.fio.limit.iops=" in finding.verify


@pytest.mark.parametrize(
    ("victims", "victim", "narrowed_to"),
    [
        ("[fio]", "fio", None),
        ("[fio, nginx]", "fio", "fio"),
        ("[{fio: {read: 0}}, nginx]", "nginx", "nginx"),
        ("[{fio: {read: 0}}, nginx]", "fio", None),  # the scenario's has parameters that the word has not
        ("[{fio: {read: 0}}, nginx]", "fio writes", None),
        ("[fio, nginx]", "fio limited to iops=5", None),
    ],
)
def test_a_repetition_is_of_one_victim_where_one_word_says_which(
    victims: str, victim: str, narrowed_to: str | None
) -> None:
    wanted = REPEAT if narrowed_to is None else f"{REPEAT} --set victims={narrowed_to}"
    application = values_of({"victim": victim}).victim
    assert narrowed(REPEAT, study(victims=victims), application) == wanted


def two(first: float, second: float, both: float) -> list[CellResult]:
    """A victim beside one neighbour, another, and both."""
    made = []
    for names, value in ((("a",), first), (("b",), second), (("a", "b"), both)):
        beside = Values(Application("fio"), tuple(map(Application, names)))
        factors = {"victim": "fio", "neighbour": " + ".join(names)}
        made.append(replace(cell({}, {}, value), values=beside, factors=factors))
    return made


@pytest.mark.parametrize(
    ("slowdowns", "words"),
    [
        ((2.7, 2.0, 2.7), "59 % of it is there with either of them."),
        ((1.05, 1.05, 3.0), "95 % of it comes only where both are there."),
        ((1.5, 2.0, 2.5), ""),
        ((0.8, 0.8, 2.0), "100 % of it comes only where both are there."),
        ((2.7, 2.0, 2.5), "67 % of it is there with either of them; to remove b alone is not shown to help."),
        (
            (3.0, 2.7, 2.5),
            "100 % of it is there with either of them; to remove either of them alone is not shown to help.",
        ),
    ],
)
def test_of_two_neighbours_it_is_told_what_removing_one_would_leave(
    slowdowns: tuple[float, float, float], words: str
) -> None:
    results = two(*slowdowns)
    said = jointly(results[-1], results)
    assert said.endswith(words) and bool(said) == bool(words)
    if words:
        assert said.startswith(
            f"Without a it is {format_times(slowdowns[1], 0.95 * slowdowns[1], 1.05 * slowdowns[1])},"
        )
    assert jointly(results[-1], results[1:]) == "", "one of them was not measured alone"
    assert jointly(results[0], results) == ""
    unknown = replace(results[0].estimate, value=math.nan, low=0.0, high=math.inf, verdict="refused")
    refused = [replace(results[0], estimate=unknown), *results[1:]]
    assert jointly(results[-1], refused) == "", "one has no ratio"
