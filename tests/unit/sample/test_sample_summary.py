"""The figures of a recording of known content."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from contend.report.sample_terminal import lines
from contend.sample.summary import Summary, summarise
from support.made_samples import GIB, S, made_sample

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summarise(made_sample(tmp_path_factory.mktemp("made") / "run", stacks=True))


def of(summary: Summary, what: str, subject: str = "", resource: str = "") -> tuple[float, float, float]:
    (found,) = (
        m for m in summary.host if (m.what, m.subject) == (what, subject) and resource in (m.resource, "")
    )
    return found.mean, found.p95, found.max


def test_the_host_is_what_was_made(summary: Summary) -> None:
    assert (summary.samples, summary.cpus, summary.length_s) == (31, 2, 30)
    assert of(summary, "busy") == pytest.approx((1.5, 2, 2))
    assert of(summary, "busiest core") == pytest.approx((100, 100, 100))
    assert of(summary, "pressure", resource="CPU") == pytest.approx((25, 50, 50))
    assert of(summary, "latency", "vda") == pytest.approx((0.001, 0.001, 0.001))
    assert of(summary, "queue", "vda") == pytest.approx((0.1, 0.1, 0.1))
    assert of(summary, "read", "vda") == pytest.approx((409_600,) * 3)
    assert of(summary, "received", "eth0") == pytest.approx((1000,) * 3)
    assert of(summary, "available") == (20 * GIB,) * 3
    assert not [m for m in summary.host if (m.what, m.subject) == ("written", "vda")], "it never wrote"


def test_the_top_of_each_list_is_who_it_was(summary: Summary) -> None:
    first = {by: (consumers[0].name, consumers[0].value) for by, consumers in summary.top.items()}
    assert first == {
        "cpu": ("burn", pytest.approx(1.0)),
        "run_delay": ("wait", pytest.approx(0.25)),
        "io": ("read<&>'\"", pytest.approx(409_600)),
        "memory": ("burn", pytest.approx(GIB)),
    }
    assert summary.top["cpu"][0].busiest_thread == 1.0


def test_the_cost_and_the_lateness_are_the_probes_own(summary: Summary) -> None:
    assert summary.probe_share == pytest.approx(0.001)
    assert summary.lateness is not None
    assert (summary.lateness.median_ns, summary.lateness.max_ns) == (200_000, 400_000)


def test_the_limit_was_a_thread_or_the_cpus(summary: Summary) -> None:
    assert summary.verdict is not None
    assert summary.verdict.verdict in ("cpu", "thread")
    assert summary.phases[0].start_ns == summary.begin_ns


def test_its_json_keeps_to_the_published_schema(summary: Summary) -> None:
    schema = json.loads((ROOT / "docs/reference/sample.schema.json").read_text(encoding="utf-8"))
    document = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    jsonschema.validate(document, schema)


def test_a_counter_that_went_backwards_gives_no_interval(tmp_path: Path) -> None:
    from contend.probes.series import SeriesWriter
    from support.made_samples import tables

    run = made_sample(tmp_path / "run", 4)
    reset = tables(4)["disk"]
    columns = dict(reset.columns) | {"t_ns": reset.columns["t_ns"] + 5 * S}  # counts from zero again
    writer = SeriesWriter(run.series)
    writer.add({"disk": type(reset)(columns, reset.names)})
    writer.close()
    found = of(summarise(run), "read", "vda")
    assert found == pytest.approx((409_600,) * 3)


def test_a_recording_without_samples_is_no_error(tmp_path: Path) -> None:
    run = made_sample(tmp_path / "run", 1)
    for path in run.series.iterdir():
        path.unlink()
    empty = summarise(run)
    assert (empty.samples, empty.host, empty.top, empty.verdict) == (0, (), {}, None)
    assert "samples" in "\n".join(lines(empty))


def test_no_line_is_wider_than_a_terminal(summary: Summary) -> None:
    assert max(map(len, lines(summary))) <= 80
    narrow = list(lines(summary, 40))
    assert max(map(len, narrow)) <= 40
    assert all(word in " ".join(" ".join(narrow).split()) for word in ("mean", "p95", "max", "Top consumers"))
