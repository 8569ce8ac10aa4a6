"""What goes into a file of another tool comes out of it: values, units, directions, number of runs, settings."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.imports.document import Run
from contend.imports.formats import FORMATS
from contend.imports.read import Import, read_files
from contend.studies.imported.result import ABOUT
from support import foreign_files as made

VALUES = st.floats(1e-6, 1e12, allow_nan=False)


def read(place: Path, *contents: Any) -> Import:
    return read_files([made.write(place / f"file-{n}", content) for n, content in enumerate(contents)])


def values(run: Run) -> Mapping[str, float]:
    return {r.name: r.value for r in run.readings}


def only(found: Import) -> Run:
    (placed,) = found.placed
    return placed.run


def test_hyperfine_gives_a_run_for_every_time(tmp_path: Path) -> None:
    found = read(tmp_path, made.hyperfine({"gzip -6": [1.0, 1.1], "gzip -9": [2.0, 2.2, 2.1]}))
    assert found.format.name == "hyperfine"
    assert [(p.cell, values(p.run)["wall"]) for p in found.placed] == [
        ("gzip -6", 1.0), ("gzip -6", 1.1), ("gzip -9", 2.0), ("gzip -9", 2.2), ("gzip -9", 2.1),
    ]  # fmt: skip
    assert [(r.unit, r.better, r.primary) for r in found.placed[0].run.readings] == [("s", "lower", True)]


@pytest.mark.parametrize(("code", "said"), [(3, "exit status 3"), (None, "a signal")])
def test_a_command_that_failed_gives_no_value(tmp_path: Path, code: int | None, said: str) -> None:
    document = made.hyperfine({"ls": [1.0, 1.1]}, {"ls": [0, code]})
    good, bad = (p.run for p in read(tmp_path, document).placed)
    assert values(good) == {"wall": 1.0}
    assert bad.readings == ()
    assert said in bad.error


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(min_size=1), st.lists(VALUES, min_size=1, max_size=9), min_size=1, max_size=4))
def test_any_command_and_time_survives(commands: dict[str, list[float]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        found = read(Path(place), made.hyperfine(commands))
    told: dict[str, list[float]] = {}
    for placed in found.placed:
        told.setdefault(placed.run.settings["command"], []).append(values(placed.run)["wall"])
    assert told == commands


def test_fio_tells_rates_and_latencies_of_what_it_did(tmp_path: Path) -> None:
    run = only(found := read(tmp_path, made.fio(86_123.4)))
    assert found.versions == ("fio-3.33",)
    told = values(run)
    assert told["read_iops"] == 86_123.4
    assert told["read_bw"] == pytest.approx(86_123.4 * 4096 / 1e6, rel=1e-6)
    assert told["read_clat_p99"] == pytest.approx(700e-6)
    assert told["read_clat_p99.9"] == pytest.approx(2e-3)
    assert told["read_clat_mean"] == pytest.approx(350e-6)
    assert told["read_lat_mean"] == pytest.approx(351e-6)
    assert not [name for name in told if name.startswith(("write", "trim"))], "it did none"
    assert {r.loop for r in run.readings if "lat" in r.name} == {"closed"}
    assert {r.loop for r in run.readings if "lat" not in r.name} == {""}
    assert run.samples == round(86_123.4 * 10)
    assert run.began_s == pytest.approx(made.NOON, abs=0.01)
    assert run.settings["bs"] == "4k"
    assert run.settings["ioengine"] == "libaio"


def test_clones_of_a_job_ran_together(tmp_path: Path) -> None:
    found = read(tmp_path, made.fio(1000.0, clones=4))
    told = values(only(found))
    assert told["read_iops"] == 4000.0
    assert told["read_clat_mean"] == pytest.approx(350e-6)
    assert not [name for name in told if "_p" in name], "percentiles do not add up"
    assert "group_reporting" in found.notes[0]


def test_declared_percentiles_are_all_taken(tmp_path: Path) -> None:
    told = values(only(read(tmp_path, made.fio(percentile_list="1:50:99:99.9"))))
    assert {"read_clat_p1", "read_clat_p50", "read_clat_p99", "read_clat_p99.9"} <= told.keys()


def test_the_last_of_several_interval_reports_is_the_run(tmp_path: Path) -> None:
    notes = "fio: this platform does not support process shared mutexes\n"
    text = notes + json.dumps(made.fio(1.0)) + "\n" + json.dumps(made.fio(2.0)) + "\n"
    assert values(only(read(tmp_path, text)))["read_iops"] == 2.0


def test_a_job_that_failed_gives_no_value(tmp_path: Path) -> None:
    bad, good = (p.run for p in read(tmp_path, made.fio(error=5), made.fio(1.0)).placed)
    assert "error 5" in bad.error
    assert values(good)["read_iops"] == 1.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=6, unique=True))
def test_as_many_runs_as_files(rates: list[float]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        found = read(Path(place), *(made.fio(rate) for rate in rates))
    assert [values(p.run)["read_iops"] for p in found.placed] == rates
    assert [p.block for p in found.placed] == list(range(len(found.placed)))


def test_iperf3_over_tcp(tmp_path: Path) -> None:
    run = only(found := read(tmp_path, made.iperf3(9.41e9)))
    assert values(run) == {"throughput": 9.41e9, "retransmits": 7.0, "client_cpu": 31.0, "server_cpu": 42.0}
    assert (run.readings[0].unit, run.readings[0].better) == ("bit/s", "higher")
    assert (run.label, run.samples, run.began_s, run.ended_s) == ("TCP", 10, made.NOON, made.NOON + 10)
    assert found.versions == ("iperf 3.12",)


def test_iperf3_over_udp(tmp_path: Path) -> None:
    told = values(only(read(tmp_path, made.iperf3(1e9, protocol="UDP"))))
    assert told["throughput"] == 1e9
    assert told["lost_percent"] == 0.5
    assert told["jitter"] == pytest.approx(20e-6)


def test_iperf3_as_a_stream_of_events(tmp_path: Path) -> None:
    whole = made.iperf3(5e9)
    events = [{"event": "start", "data": whole["start"]}]
    events += [{"event": "interval", "data": i} for i in whole["intervals"]]
    events += [{"event": "end", "data": whole["end"]}]
    run = only(read(tmp_path, "\n".join(json.dumps(e) for e in events)))
    assert values(run)["throughput"] == 5e9
    assert run.samples == 10


def test_an_iperf3_that_could_not_connect_is_a_failed_run(tmp_path: Path) -> None:
    refused = {"start": {"version": "iperf 3.12"}, "intervals": [], "end": {}, "error": "unable to connect"}
    good, bad = (p.run for p in read(tmp_path, made.iperf3(), refused).placed)
    assert good.readings
    assert "unable to connect" in bad.error


@pytest.mark.parametrize(("target", "loop"), [(0, "closed"), (1000, "open")])
def test_sysbench_of_the_cpu(tmp_path: Path, target: int, loop: str) -> None:
    run = only(found := read(tmp_path, made.sysbench_cpu(1234.56, target=target)))
    told = values(run)
    assert (run.label, run.samples, told["events"]) == ("cpu", 12350, 1234.56)
    assert told["latency_avg"] == pytest.approx(0.81e-3)
    assert told["latency_p95"] == pytest.approx(0.90e-3)
    assert {r.loop for r in run.readings if r.name.startswith("latency")} == {loop}
    assert run.settings["Number of threads"] == "4"
    assert run.settings["Prime numbers limit"] == "10000"
    assert found.versions == ("1.0.20",)


def test_sysbench_of_a_database(tmp_path: Path) -> None:
    run = only(read(tmp_path, made.sysbench_oltp(333.3)))
    assert run.label == "OLTP"
    assert (run.readings[0].name, run.readings[0].value, run.readings[0].unit) == (
        "transactions",
        333.3,
        "tx/s",
    )
    assert values(run)["queries"] == 6666.0


@pytest.mark.parametrize(
    ("text", "rate"),
    [(made.sysbench_cpu(), 1234.9382), (made.sysbench_oltp(), 333.2966), (made.sysbench_threads(), 983.61)],
)
def test_sysbench_1_1_says_the_same_in_other_words(text: str, rate: float, tmp_path: Path) -> None:
    old, new = (
        only(found := read(tmp_path / version, text_))
        for version, text_ in (("old", text), ("new", made.sysbench_1_1(text, rate)))
    )
    assert found.versions == ("1.1.0-3ceba0b",)
    assert (old.label, old.settings, old.samples) == (new.label, new.settings, new.samples)
    assert values(new) == pytest.approx(values(old), rel=1e-4)
    assert list(values(new)) == list(values(old))


@pytest.mark.parametrize("version", ["1.0.20", "1.1.0-3ceba0b"])
def test_sysbench_of_files(version: str, tmp_path: Path) -> None:
    run = only(read(tmp_path, made.sysbench_fileio(800.5, version=version)))
    told = values(run)
    assert run.label == "fileio"
    assert told["reads"] == 800.5
    assert told["read_bandwidth"] == pytest.approx(12.51)
    assert told["latency_avg"] == pytest.approx(1.25e-3)
    assert told["latency_p95"] == pytest.approx(1.5e-3)
    assert not {"writes", "fsyncs", "write_bandwidth"} & set(told)
    assert run.samples == (8005 if version.startswith("1.0") else 1)


def test_several_outputs_in_one_file_are_several_runs(tmp_path: Path) -> None:
    found = read(tmp_path, made.sysbench_cpu(1.0) + made.sysbench_cpu(2.0))
    assert [values(p.run)["events"] for p in found.placed] == [1.0, 2.0]
    found = read(tmp_path / "pg", made.pgbench(1.0) + made.pgbench(2.0) + made.pgbench(3.0))
    assert [values(p.run)["tps"] for p in found.placed] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("rate", "loop"), [(False, "closed"), (True, "open")])
def test_pgbench(tmp_path: Path, rate: bool, loop: str) -> None:
    run = only(found := read(tmp_path, made.pgbench(1234.5, rate=rate, statements=True)))
    told = values(run)
    assert (run.label, run.samples, told["tps"]) == ("TPC-B (sort of)", 2469, 1234.5)
    assert told["latency_avg"] == pytest.approx(3.24e-3)
    assert told["initial_connection"] == pytest.approx(5.678e-3)
    assert {r.loop for r in run.readings if r.name == "latency_avg"} == {loop}
    update = next(name for name in told if name.startswith("UPDATE pgbench_accounts"))
    assert told[update] == pytest.approx(1.25e-3)
    assert run.settings["number of clients"] == "4"
    assert found.versions == ("15.15",)


def test_pgbench_of_before_version_14(tmp_path: Path) -> None:
    text = made.pgbench(100.5).replace(
        "tps = 100.5 (without initial connection time)",
        "tps = 99.0 (including connections establishing)\ntps = 100.5 (excluding connections establishing)",
    )
    assert values(only(read(tmp_path, text)))["tps"] == 100.5


OF_CLIENT = "pgbench: error: client 0 script 0 aborted in command 0 query 0: ERROR:  division by zero\n"
OF_RUN = "pgbench: error: Run was aborted; the above results are incomplete.\n"


@pytest.mark.parametrize("first_is", ["whole", "aborted"])
@pytest.mark.parametrize(
    ("before", "behind"), [(OF_CLIENT * 2, OF_RUN), ("", OF_RUN), (OF_CLIENT, ""), (OF_CLIENT + OF_RUN, "")]
)
def test_pgbench_that_was_aborted(first_is: str, before: str, behind: str, tmp_path: Path) -> None:
    """As pgbench 15 writes it, one that says less, and one of before version 12, whose results came last."""
    whole = made.pgbench(1.0)
    head, begins, results = made.pgbench(2.0).partition("transaction type: ")
    aborted = f"{head}{before}{begins}{results}{behind}"
    text = whole + aborted + whole if first_is == "whole" else aborted + whole + aborted
    found = [place.run.error for place in read(tmp_path, text).placed]
    assert [bool(error) for error in found] == [
        is_ == "a" for is_ in ("waw" if first_is == "whole" else "awa")
    ]
    assert max(found).startswith(f"pgbench said: {'client 0' if before else 'Run was'}")


@pytest.mark.parametrize(("failed", "error"), [(0, "pgbench processed 9 of 100 transactions"), (91, "")])
def test_pgbench_that_ended_before_its_transactions(failed: int, error: str, tmp_path: Path) -> None:
    """Its message is on stderr, which nobody may have kept."""
    text = made.pgbench(2.0).replace("processed: 2469", "processed: 9/100")
    text = text.replace("failed transactions: 0 (", f"failed transactions: {failed} (")
    assert [place.run.error for place in read(tmp_path, made.pgbench(1.0) + text).placed] == ["", error]


def test_k6_table(tmp_path: Path) -> None:
    times = [100.0 + n for n in range(101)]  # 10 s, ten a second
    run = only(found := read(tmp_path, made.k6_table(times, failed=5)))
    told = values(run)
    assert (run.label, run.samples) == ("default", 101)
    assert told["http_reqs"] == pytest.approx(10.1)
    assert told["http_req_duration_med"] == pytest.approx(0.150)
    assert told["http_req_duration_avg"] == pytest.approx(0.150)
    assert told["http_req_duration_p95"] == pytest.approx(0.195)
    assert told["http_req_failed_share"] == pytest.approx(100 * 5 / 101)
    assert run.settings == {"vus_max": "10"}
    assert any("http_req_waiting" in note for note in found.notes)
    assert any("whole seconds" in note for note in found.notes)
    assert {r.loop for r in run.readings if "duration" in r.name} == {"closed"}


def test_k6_scenarios_are_cells(tmp_path: Path) -> None:
    first, second = made.k6_table([1.0] * 30, scenario="browse"), made.k6_table([2.0] * 30, scenario="buy")
    found = read(tmp_path, first + second.split("\n", 1)[1])
    assert [c.id for c in found.cells] == ["browse", "buy"]
    assert [c.baseline for c in found.cells] == ["", ""], "they ran in one test: nothing to compare"


def test_k6_table_packed(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress(made.k6_table([5.0] * 30).encode()))
    assert values(read_files([path]).placed[0].run)["http_req_duration_med"] == pytest.approx(0.005)


@pytest.mark.parametrize("nested", [False, True])
def test_k6_summary(tmp_path: Path, nested: bool) -> None:
    run = only(read(tmp_path, made.k6_summary(87.5, 215.95, nested=nested)))
    told = values(run)
    assert (told["http_reqs"], run.samples) == (87.5, 875)
    assert told["http_req_duration_p95"] == pytest.approx(0.21595)
    assert told["http_req_failed_share"] == pytest.approx(0.8)
    assert run.settings == {"vus_max": "20"}


def test_jmeter(tmp_path: Path) -> None:
    times = [100 + n for n in range(101)]
    run = only(read(tmp_path, made.jmeter(times, failed=2, threads=3)))
    told = values(run)
    assert (run.label, run.samples, run.settings) == ("login", 101, {"threads": "3"})
    assert told["throughput"] == pytest.approx(101 / 10.2), "to the end of the last sample"
    assert told["elapsed_median"] == pytest.approx(0.150)
    assert told["elapsed_p95"] == pytest.approx(0.195)
    assert told["error_share"] == pytest.approx(100 * 2 / 101)
    assert run.began_s == made.NOON


def test_jmeter_with_stamps_in_words_and_bars_between(tmp_path: Path) -> None:
    text = "timeStamp|elapsed|label|success\n2026/01/01 12:00:00.500|80|Home|true\n2026/01/01 12:00:01.500|90|Home|true\n"
    run = only(read(tmp_path, text))
    assert run.began_s == made.NOON + 0.5
    assert values(run)["elapsed_mean"] == pytest.approx(0.085)


@pytest.mark.parametrize("form", ["old", "report"])
def test_rally(tmp_path: Path, form: str) -> None:
    durations = [10.0, 12.0, 14.0, 16.0]
    content: Any = made.rally_old(durations) if form == "old" else made.rally_report([durations])
    run = only(found := read(tmp_path, content))
    told = values(run)
    assert (run.label, run.samples) == ("NovaServers.boot_and_delete_server", 4)
    assert told["duration_median"] == statistics.median(durations)
    assert told["nova.boot_server median"] == pytest.approx(0.75 * 13)
    assert told["nova.delete_server median"] == pytest.approx(0.25 * 13)
    assert told["load_duration"] == 17.0
    assert told["failed_iterations"] == 0
    assert "nova.show_server median" not in told, "it lies inside another"
    assert run.began_s == made.NOON
    assert run.settings["runner.constant.concurrency"] == "4"
    assert run.settings["args.flavor.name"] == "m1.tiny"
    assert {r.loop for r in run.readings} == {""}, "all began together: nobody waits for another's answer"
    assert found.versions == (() if form == "old" else ("5.1.0",))


def test_iterations_that_failed_are_counted_and_not_timed(tmp_path: Path) -> None:
    told = values(only(read(tmp_path, made.rally_old([300.0, 10.0, 12.0, 14.0], failed=1))))
    assert told["duration_median"] == 12.0
    assert told["failed_iterations"] == 25.0


def test_a_constant_concurrency_is_a_closed_loop(tmp_path: Path) -> None:
    run = only(read(tmp_path, made.rally_old([1.0] * 8, concurrency=2)))
    assert {r.loop for r in run.readings if r.unit == "s" and r.name != "load_duration"} == {"closed"}


def test_several_tasks_are_several_runs_and_iterations_none(tmp_path: Path) -> None:
    found = read(tmp_path, made.rally_report([[10.0, 11.0], [12.0, 13.0], [14.0, 15.0]]))
    assert [values(p.run)["duration_median"] for p in found.placed] == [10.5, 12.5, 14.5]
    assert len(found.cells) == 1


def test_secrets_among_the_arguments_stay_out(tmp_path: Path) -> None:
    (document,) = made.rally_old([1.0, 2.0])
    document["key"]["kw"]["args"] |= {"admin_password": "hunter2"}
    assert "hunter2" not in str(only(read(tmp_path, [document])).settings)


def test_every_format_says_what_one_run_is() -> None:
    assert set(FORMATS) == {"fio", "hyperfine", "iperf3", "jmeter", "k6", "pgbench", "rally", "sysbench"}
    assert set(ABOUT) == set(FORMATS)
    assert all("run" in told for told in ABOUT.values())
