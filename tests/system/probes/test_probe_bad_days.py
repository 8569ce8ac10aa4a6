"""The probe where BPF cannot be had: it takes the next best source, says why, and harms no measured command."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import HostFailed
from contend.probes.client import ProbeProcess, probe_check
from support import handicaps
from support.command_line import Home, check_files
from support.handicaps import Handicap
from support.processes import Recording, Worker

SPIN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7"


@pytest.fixture(params=handicaps.ALL, ids=str)
def handicap(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Handicap:
    """The probe that contend finds is one under this handicap."""
    given: Handicap = request.param
    place = tmp_path / "handicap"
    place.mkdir()
    monkeypatch.setenv("CONTEND_PROBE", str(given.probe(place)))
    return given


def test_it_takes_the_next_best_source_and_says_why(handicap: Handicap) -> None:
    recording = Recording("auto", host=True, sched={"by": "process"}, bpf_stats=True)
    recording.settle()
    with Worker() as worker:
        worker.do("burn 0.2")
        own = worker.do("fault 2000")
        rows = recording.finish()
    assert recording.sources["processes"] in ("taskstats", "proc")
    did = rows.did(worker.pid)
    assert did["cpu_ns"] == pytest.approx(own["cpu_ns"], rel=0.02, abs=5e6)
    assert did["minor_faults"] == pytest.approx(own["minor_faults"], rel=0.02, abs=8)
    said = "\n".join(recording.notes)
    assert "processes not from BPF" in said and handicap.why in said
    assert "no scheduler histograms" in said and "run delay and switches" in said
    assert "sched_hist" not in rows.tables and len(rows.tables["host"]["t_ns"]) > 2
    assert (rows.cost.errors, rows.cost.last_error) == (0, "")


def test_blame_says_what_is_missing_and_what_to_do(handicap: Handicap) -> None:
    with pytest.raises(HostFailed) as refused:
        ProbeProcess({"interval_ms": 100, "blame": {"by": "process"}})
    assert handicap.why in refused.value.message
    assert "contend-probe check" in refused.value.hint
    assert handicap.why in probe_check()["no_bpf"]


def test_the_measured_command_is_untouched(handicap: Handicap, contend: Home) -> None:
    said = contend("sample", "-i", "50ms", "--sched", "process", "-o", "out", "--", "sh", "-c", SPIN)
    assert said.code == 7, said
    said.no_traceback()
    told = " ".join(said.err.split())
    assert "note: processes not from BPF" in told and handicap.why in told
    assert "no scheduler histograms" in told
    check_files(contend.path / "out")
    query = "select sum(user_ns + system_ns) as used from process_use where name = 'sh'"
    assert contend("sql", "out", "--json", query).fine().json()[0]["used"] > 0


def test_a_watch_without_it_is_a_correlation(handicap: Handicap, contend: Home) -> None:
    document = contend("watch", "--by", "process", "--for", "1s", "-i", "200ms", "--json").fine().json()
    assert document["kind"] == "correlation"
    assert handicap.why in document["note"]
