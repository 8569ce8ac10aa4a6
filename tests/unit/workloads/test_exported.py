"""Figures that services export are read as Prometheus's own client exports them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, start_http_server

from contend.errors import BadInput, TrialFailed
from contend.workloads.generators import exported
from contend.workloads.generators.exported import Reading, Series, changed, kind_of, quantile_of


@dataclass
class Exporter:
    url: str
    seconds: Histogram
    summary: Summary
    requests: Counter
    queue: Gauge


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    registry = CollectorRegistry()
    seconds = Histogram("http_seconds", "Answers.", ["path"], buckets=(0.01, 0.02, 0.04), registry=registry)
    made = Exporter(
        "",
        seconds,
        Summary("rows_seconds", "Rows.", registry=registry),
        Counter("requests", "Requests.", ["code"], registry=registry),
        Gauge("queue", "Waiting.", registry=registry),
    )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    made.url = f"http://127.0.0.1:{port}/metrics"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_a_series_is_comes_from_its_family(exporter: Exporter) -> None:
    exporter.seconds.labels("/cart").observe(0.015)
    exporter.requests.labels("200").inc()
    for name, kind in (
        ("http_seconds", "time"),
        ('http_seconds{path="/cart"}', "time"),
        ("http_seconds_count", "count"),
        ("rows_seconds", "time"),
        ("requests_total", "count"),
        ("requests", "count"),
        ("queue", "value"),
    ):
        assert kind_of(exporter.url, Series.parse(name)) == kind, name


def test_what_changed_meanwhile_is_the_figure(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the trial there was other work, of another path too."""
    cart = exporter.seconds.labels("/cart")
    cart.observe(5.0)

    def work(_s: float) -> None:
        for _ in range(99):
            cart.observe(0.015)
        cart.observe(0.035)
        exporter.seconds.labels("/other").observe(9.0)
        for code in ("200", "404"):
            exporter.requests.labels(code).inc(10)
        exporter.queue.set(6)
        monkeypatch.undo()

    def read(kind: exported.Kind, name: str, length_s: float = 0.05) -> dict[str, float]:
        monkeypatch.setattr(exported.time, "sleep", work)
        return exported.read(kind, exporter.url, Series.parse(name), length_s)

    timed = read("time", 'http_seconds{path="/cart"}')
    assert timed["mean"] == pytest.approx((99 * 0.015 + 0.035) / 100)
    assert 0.01 < timed["p50"] < 0.02 and timed["p99"] == pytest.approx(0.02)
    assert read("count", 'requests_total{code="200"}')["rate"] > 0
    exporter.queue.set(2)
    assert 2 < read("value", "queue")["value"] <= 6


def test_the_figure_is_written_where_a_trial_reads_it(
    exporter: Exporter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exporter.queue.set(3)
    words = ["value", exporter.url, "queue", "--for", "10ms", "--out", str(tmp_path)]
    assert exported.main(words) == 0
    assert json.loads((tmp_path / "exported.json").read_text()) == {"value": 3.0}
    assert exported.main(["count", *words[1:]]) == 2
    assert "queue of" in (err := capsys.readouterr().err) and "the workload exported-value" in err


def test_what_is_not_exported_is_refused_with_what_is(exporter: Exporter) -> None:
    exporter.requests.labels("200").inc()
    with pytest.raises(BadInput, match="exports no 'htp_seconds'") as refused:
        kind_of(exporter.url, Series.parse("htp_seconds"))
    assert "did you mean 'http_seconds'" in refused.value.hint
    with pytest.raises(BadInput, match="with these labels") as refused:
        kind_of(exporter.url, Series.parse('requests{code="500"}'))
    assert '"code": "200"' in refused.value.hint
    with pytest.raises(TrialFailed, match="exports nothing"):
        kind_of("http://127.0.0.1:1/metrics", Series.parse("a"))
    with pytest.raises(BadInput, match="no URL of metrics"):
        kind_of("file:///etc/passwd", Series.parse("a"))
    for text in ("", "{}", 'a{b="c"', "a{b=c}", 'a{b="c"}d'):
        with pytest.raises(BadInput, match="is no series"):
            Series.parse(text)


def test_labels_are_read_as_they_are_exported() -> None:
    assert Series.parse(r'a{b="x,\"y\"", c="1\n2",}').labels == {"b": 'x,"y"', "c": "1\n2"}


def test_nothing_counted_or_counted_again_from_0_is_no_figure() -> None:
    series = Series("a", {})
    with pytest.raises(TrialFailed, match="counted nothing in 2"):
        changed("time", series, Reading(0, 1, 1), Reading(2 * 10**9, 1, 1))
    with pytest.raises(TrialFailed, match="began anew"):
        changed("count", series, Reading(0, 5), Reading(1, 2))
    with pytest.raises(TrialFailed, match="began anew"):  # one of two, though they counted more together
        changed("count", series, Reading(0, 5, parts={"a": 4, "b": 1}), Reading(1, 9, parts={"a": 0, "b": 9}))


def test_a_part_that_is_no_figure_is_refused(exporter: Exporter) -> None:
    for part in ("http_seconds_sum", "http_seconds_bucket"):
        with pytest.raises(BadInput, match="is a part of http_seconds"):
            kind_of(exporter.url, Series.parse(part))


def test_what_lies_beyond_the_last_bucket_has_no_quantile() -> None:
    assert quantile_of({1.0: 98, float("inf"): 100}, 0.99) is None
    assert quantile_of({1.0: 0, 2.0: 100, float("inf"): 100}, 0.5) == pytest.approx(1.5)
    assert quantile_of({}, 0.5) is None
