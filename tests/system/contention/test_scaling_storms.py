"""Real storms of several sizes: the lock that makes them grow is named, and its demand is what its holders measured."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from contend.cli.hunt_ import command
from contend.contention.hunt_document import HuntDocument
from contend.contention.scaling import Key, Scaling, read, scale
from contend.contention.scaling_findings import scaling_findings
from contend.contention.whatif.prediction import whatif
from contend.contention.whatif.storms import Edit, open_storms
from contend.errors import BadInput
from contend.text.shape import schema
from support.answers import data_in
from support.toy_storm import MS, WORSENED, Truth, realtime, storm, undisturbed

SIZES = (4, 10, 20)


@pytest.fixture(scope="module")
def storms(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Truth], list[Path]]:
    truths, directories = [], []
    fifo = realtime()
    for n in SIZES:
        for seed in range(2):
            directory: Path = tmp_path_factory.mktemp(f"storm-{n}-{seed}") / "trace"
            truths.append(undisturbed(directory, WORSENED, jobs=n, seed=n + seed, realtime=fifo))
            directories.append(directory)
    return truths, directories


@pytest.fixture(scope="module")
def made(storms: tuple[list[Truth], list[Path]]) -> tuple[list[Truth], Scaling]:
    truths, directories = storms
    return truths, scale(read(directories), limit_ns=1000 * MS)


def test_storms_are_what_they_were(made: tuple[list[Truth], Scaling]) -> None:
    truths, told = made
    for truth, of in zip(truths, told.storms, strict=True):
        assert of.load == "storm" and of.jobs == len(truth.started)
        # A thread may be without a CPU between its own look at the clock and the tracer's, as long as any sleep was late.
        assert of.times.median_ns == pytest.approx(truth.median, abs=0.02 * truth.median + truth.latest)
        assert of.times.makespan_ns == pytest.approx(truth.makespan, abs=0.02 * truth.makespan + truth.latest)
        assert sum(of.parts.values()) == pytest.approx(of.mean_ns, rel=0.01)


def test_demands_are_those_of_the_holders_own_clocks(made: tuple[list[Truth], Scaling]) -> None:
    truths, told = made
    for truth, of in zip(truths, told.storms, strict=True):
        measured = of.demands[Key("lock", "resource")] * len(truth.started)
        # Between the two is a holder that has the lock and waits for the GIL or a CPU before it can look at its clock.
        assert 0.99 * truth.held["resource"] <= measured <= 1.01 * truth.held_most["resource"]
    resource = next(demand for demand in told.demands if demand.key == Key("lock", "resource"))
    slope = told.law.demand
    assert slope.low <= resource.estimate.high and resource.estimate.low <= slope.high, (slope, resource)


def named(resource: str, truths: list[Truth]) -> bool:
    """Where the host took the processors again and again, the slope may fit nobody's demand: then nobody is named."""
    return resource == "resource" or (not resource and any(truth.disturbed for truth in truths))


def test_the_lock_is_named_and_not_claimed_without_the_alibi(made: tuple[list[Truth], Scaling]) -> None:
    truths, told = made
    law, *rest = scaling_findings(told)
    assert named(law.resource, truths) and (not law.resource or "not claimed" in law.sentence)
    grows = [finding for finding in rest if finding.kind == "growth"]
    assert grows[0].resource == "resource" and (grows[0].share or 0) > 0.5
    assert any(growth.key.name == "claim" and growth.share > 0.5 for growth in told.spans)


def test_the_hunt_tells_it(storms: tuple[list[Truth], list[Path]]) -> None:
    truths, directories = storms
    sources = [str(path) for path in directories]
    done = CliRunner().invoke(command, [*sources, "--limit", "1s", "--json"], catch_exceptions=False)
    document = data_in(done.stdout)
    jsonschema.validate(document, schema(HuntDocument))
    assert document["growth"]["law"]["makespan"]["slope"]["low"] > 0 and document["growth"]["serial"] is None
    assert document["jobs"]["n"] == 2 * SIZES[-1], "the largest storms lead"
    law, limit, *_ = document["findings"]
    assert law["kind"] == "growth" and named(law["resource"], truths) and limit["kind"] == "limit"
    assert "What grows with the number of jobs" in (directories[0] / "hunt.html").read_text()
    shown = CliRunner().invoke(command, sources, catch_exceptions=False).output
    assert "What stretches" in shown and "lock resource" in shown
    with pytest.raises(BadInput, match="all traces are of one size"):
        CliRunner().invoke(command, [*sources[:2], "--limit", "1s"], catch_exceptions=False)


def test_a_replay_with_more_jobs_doubts_workers_that_are_fixed(
    storms: tuple[list[Truth], list[Path]], tmp_path: Path
) -> None:
    _, directories = storms
    doubt = "a drawn job's queue is drawn too"
    told = whatif(open_storms(directories[-1:]), [Edit("jobs", "", 40)])
    assert any(doubt in note for note in told.notes)
    storm(tmp_path, WORSENED, jobs=4, pool="shared", realtime=realtime())
    told = whatif(open_storms([tmp_path]), [Edit("jobs", "", 40)])
    assert not any(doubt in note for note in told.notes)
