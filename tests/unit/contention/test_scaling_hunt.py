"""What storms of several sizes say: parts that grow, demands, the serial section and what it takes to claim one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from contend.contention.alibi.verdict import Alibi
from contend.contention.growth import by_size, growth
from contend.contention.scaling import Key, measure, scale
from contend.contention.scaling_document import scaling_document
from contend.contention.scaling_findings import scaling_findings
from contend.errors import BadInput
from contend.report.scaling_plots import scaling_plots
from contend.report.scaling_terminal import print_scaling
from support.intervals import holds
from support.made_storms import MS, storms, tables


def test_the_growth_of_all_parts_is_that_of_the_whole() -> None:
    told = scale(storms())
    assert sum(growth.line.slope.value for growth in told.parts) == pytest.approx(told.mean.slope.value)
    assert sum(growth.share for growth in told.parts) == pytest.approx(1)
    first = told.parts[0]
    assert first.key == Key("lock", "db") and first.share > 0.9
    assert holds(first.line.slope, 10 * MS)


def test_each_resource_has_its_demand() -> None:
    told = scale(storms())
    by_key = {demand.key: demand for demand in told.demands}
    db = by_key[Key("lock", "db")]
    assert told.demands[0] is db and holds(db.estimate, 20 * MS) and db.busy > 0.9
    assert by_key[Key("pool", "rpc")].estimate.value == pytest.approx(3 * MS)
    # A lock that every job has for itself keeps nobody waiting.
    assert by_key[Key("lock", "own")].estimate.value < 5 * MS


def test_a_serial_section_is_claimed_with_the_waits_and_the_alibi_only() -> None:
    of = storms()
    assert scale(of, alibi="idle").serial
    for alibi, words in (("", "not claimed"), ("cpu", "not idle (cpu at its limit)")):
        told = scale(of, alibi=alibi)
        assert not told.serial and told.bottleneck is not None
        law, *rest = scaling_findings(told)
        assert words in law.sentence
        assert all(finding.kind == "growth" for finding in rest)
    (found,) = (f for f in scaling_findings(scale(of, alibi="idle")) if f.kind == "serial section")
    assert found.resource == "db" and found.verify == "contend whatif traces/32-0 --hold db=0.5"


def test_waits_that_are_not_on_record_name_no_bottleneck() -> None:
    """The same straight line, from something else."""
    unseen = []
    for n in (4, 8, 16, 32):
        for seed in range(2):
            made = tables(n, seed)
            made.locks = [lock for lock in made.locks if lock.name != "db"]
            for row in made.parts:
                if row.kind == "lock":
                    row.kind, row.resource = "running", ""
            unseen.append(measure(made, f"{n}-{seed}"))
    told = scale(unseen, alibi="idle")
    assert told.bottleneck is None and not told.serial
    assert "not on record" in scaling_findings(told)[0].sentence


def test_a_semaphore_that_several_hold_has_no_demand() -> None:
    made = tables(8)
    made.locks[0].kind = "semaphore"
    assert Key("lock", "db") in measure(made, "").demands
    made.locks[0].hold_ns *= 3
    assert Key("lock", "db") not in measure(made, "").demands


def test_a_lock_that_is_free_in_small_storms_has_its_demand() -> None:
    made = [tables(n, seed) for n in (4, 8, 16, 32) for seed in range(2)]
    for of in made[:4]:
        of.locks[1].waits = 0
    told = scale([measure(of, str(at)) for at, of in enumerate(made)])
    (cache,) = (demand for demand in told.demands if demand.key.name == "cache")
    assert cache.estimate.value == pytest.approx(2 * MS)
    for of in made[4:]:
        of.locks[1].waits = 0
    told = scale([measure(of, str(at)) for at, of in enumerate(made)])
    assert all(demand.key.name != "cache" for demand in told.demands), "nobody ever waits for it"


def test_a_limit_is_told_by_n_or_refused() -> None:
    near = scaling_findings(scale(storms(), limit_ns=1040 * MS))
    makespan = next(f for f in near if f.id == "limit-makespan")
    assert makespan.estimate.low <= 51 <= makespan.estimate.high
    assert "breaks 1.04 s from N = 5" in makespan.sentence
    far = next(
        f for f in scaling_findings(scale(storms(), limit_ns=100_000 * MS)) if f.id == "limit-makespan"
    )
    assert far.estimate.verdict == "refused" and "measure a larger N" in far.sentence


def test_what_is_no_storm_is_refused() -> None:
    made = tables(8)
    for row in made.jobs:
        row.begin_ns, row.end_ns = row.job * MS, (row.job + 1) * MS
    with pytest.raises(BadInput, match="do not begin together"):
        scale([*storms(), measure(made, "steady")])
    with pytest.raises(BadInput, match="no jobs"):
        measure(SimpleNamespace(jobs=[], parts=[], locks=[], pools=[], spans=[]), "empty")
    with pytest.raises(BadInput, match="carry no line"):
        scale(storms(sizes=(4,)))


def test_findings_are_what_machines_read() -> None:
    told = scaling_findings(scale(storms(), alibi="idle", limit_ns=1040 * MS))
    assert [finding.id for finding in told] == [
        "growth",
        "limit-median",
        "limit-p90",
        "limit-makespan",
        "growth-lock-db",
    ]
    for finding in told:
        json.dumps(finding.to_json(), allow_nan=False)
        assert finding.verify.startswith("contend ") and finding.evidence


def test_the_terminal_says_it_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_scaling(scale(storms(), alibi="idle"), Console(width=120))
    shown = capsys.readouterr().out
    assert "waiting for lock db" in shown and "lock db" in shown and "claim" in shown
    print_scaling(scale(storms(sizes=(4, 8)), alibi="idle"), Console(width=120))
    assert "not checked" in capsys.readouterr().out


def test_the_pictures_keep_to_the_schema_of_vega_lite() -> None:
    import altair
    import jsonschema

    file = Path(altair.__file__).parent / "vegalite/v6/schema/vega-lite-schema.json"
    schema = json.loads(file.read_text())
    of = scale(storms(), limit_ns=1040 * MS)
    law, parts = scaling_plots(of)
    for plot in (law, parts):
        jsonschema.validate(plot.spec, schema)
        assert plot.caption and plot.table and set(plot.legend)
    points = law.spec["data"]["values"]
    assert len(points) == 3 * len(of.storms)
    assert {row["n"] for row in points} == {4, 8, 16, 32}


def test_the_document_has_it_all() -> None:
    told = scaling_document(scale(storms(), alibi="idle", limit_ns=1040 * MS)).to_json()
    json.dumps(told, allow_nan=False)
    assert told["serial"] == "db" and told["parts"][0]["name"] == "db"
    assert all(isinstance(storm["median_ns"], int) for storm in told["storms"])
    assert told["law"]["makespan"]["held_out"]["jobs"] == 32
    assert set(told["breaks"]) == {"median", "p90", "makespan"}
    assert scaling_document(scale(storms())).serial is None


@dataclass(frozen=True)
class Batch:
    traces: list[SimpleNamespace]
    alibi: Alibi | None = None


def batch(jobs: int, verdict: str | None = "idle") -> Batch:
    traces = [tables(jobs, seed) for seed in range(2)]
    for trace in traces:
        trace.source = f"traces/{jobs}"
    alibi = None if verdict is None else Alibi(verdict, "", (), {}, (), (), 0, 1)
    return Batch(traces, alibi)


def test_batches_of_several_sizes_are_put_in_order() -> None:
    traces = [trace for jobs in (4, 16, 4) for trace in batch(jobs).traces]
    assert [[len(t.jobs) for t in of] for of in by_size(traces)] == [[16, 16], [4, 4, 4, 4]]
    # Requests of a service, a few more or less.
    assert [len(of) for of in by_size([*batch(16).traces, *batch(17).traces])] == [4]
    assert by_size([]) == []


def test_growth_goes_by_the_hardware_of_all_batches() -> None:
    of = [batch(n) for n in (4, 8, 16, 32)]
    told, why = growth(of)
    assert told is not None and told.serial and not why
    for other, alibi in ((batch(32, "cpu"), "cpu"), (batch(32, None), ""), (batch(32, "unknown"), "")):
        told, _ = growth([*of[:3], other])
        assert told is not None and told.alibi == alibi and not told.serial


def test_growth_says_why_there_is_none() -> None:
    assert growth([batch(8)]) == (None, "")
    with pytest.raises(BadInput, match="all traces are of one size"):
        growth([batch(8)], limit_ns=1)
    told, why = growth([batch(8), batch(16), batch(16), batch(32)])
    assert told is None and "several cells have 16 jobs" in why
    steady = batch(8)
    for trace in steady.traces:
        for row in trace.jobs:
            row.begin_ns, row.end_ns = row.job * MS, (row.job + 1) * MS
    told, why = growth([steady, batch(32)])
    assert told is None and "do not begin together" in why
    with pytest.raises(BadInput, match="do not begin together"):
        growth([steady, batch(32)], limit_ns=1)
