"""What is said of a watch: for machines, for a scrape, in a terminal, on a page."""

from __future__ import annotations

import io
import re

import jsonschema
from rich.console import Console

from contend.contention.alert import judge
from contend.contention.blame import periods
from contend.report.watch_document import WatchDocument, document
from contend.report.watch_html import matrix, render_watch, timeline
from contend.report.watch_metrics import Exporter
from contend.report.watch_terminal import Lines, LiveTable, summary
from contend.text.shape import schema
from support import blame_rows as made
from support.blame_rows import S


def test_the_document_is_as_its_schema_says_and_its_rows_sum() -> None:
    of = made.watched(made.steady())
    for report in (
        made.report(of, alert=judge(of, 0.2)),
        made.report(made.watched([])),
        made.report(made.watched(made.steady(2), kind="correlation")),
    ):
        said = document(report).to_json()
        jsonschema.validate(said, schema(WatchDocument))
        for resource in said["resources"].values():
            for victim in resource["victims"]:
                assert victim["wait_ns"] == victim["more_wait_ns"] + sum(
                    c["wait_ns"] for c in victim["culprits"]
                )
                assert victim["lost_ns"] <= victim["wait_ns"]


def test_metrics_are_openmetrics_text_and_keep_their_series() -> None:
    exporter = Exporter()
    first = made.watched(made.steady(6, culprit='/a "quoted"\\path'))
    text = exporter.render(first, first.blame.apart[-1])
    assert text.endswith("# EOF\n")
    sample = re.compile(r'^[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? -?[0-9.]+$')
    assert [line for line in text.splitlines() if not line.startswith("#") and not sample.match(line)] == []
    assert 'culprit="/a \\"quoted\\"\\\\path"} 1.83\n' in text
    assert 'contend_lost_ratio{resource="cpu",victim="/web.service"} 0.3' in text
    later = exporter.render(made.watched(made.steady(6, culprit="/b")), None)
    assert 'culprit="/a \\"quoted\\"\\\\path"} 0.0\n' in later, "a series does not vanish with its rank"
    assert 'culprit="/b"} 1.83\n' in later


def test_metrics_of_one_victim_are_its_alone() -> None:
    of = made.watched(made.steady(6))
    whole, own = Exporter().render(of, None), Exporter(lambda name: name == "/web.service").render(of, None)
    assert 'victim="/' in whole.replace('victim="/web.service"', "")
    assert 'victim="/web.service"' in own and 'victim="/' not in own.replace('victim="/web.service"', "")


def said(of: object, width: int, **changes: object) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, no_color=True, force_terminal=False, legacy_windows=False)
    summary(made.report(of, **changes), console)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_the_summary_fits_and_says_whom_to_hold_back() -> None:
    of = made.watched(made.steady())
    for width in (60, 80, 120):
        text = said(of, width, alert=judge(of, 0.2))
        too_long = [line for line in text.splitlines() if len(line) > width and "verify:" not in line]
        assert too_long == []
        flat = " ".join(text.split())
        assert "/web.service waited for the CPU 30 % of the time" in flat
        assert "Threshold 20 %: crossed by /web.service (cpu)" in flat
        assert "verify: contend watch /web.service --by cgroup --for 30s" in flat
    assert "Nobody lost 1 % of the time or more to neighbours in 10 s" in said(
        made.watched(made.steady(web=0, rest=0)), 80
    )


def test_a_line_and_a_live_table_tell_of_an_interval() -> None:
    of = made.watched(made.steady())
    period = list(periods(made.tables(made.steady()), 0))[-1]
    lines: list[str] = []
    with Lines(lines.append, lambda _: True) as shower:
        shower.show(of, period)
    assert "/web.service lost 30 % (CPU): /batch.service 88 %, itself 12 %" in lines[0]
    buffer = io.StringIO()
    with LiveTable(
        Console(file=buffer, width=100, force_terminal=True), lambda n: n == "/db.service"
    ) as live:
        live.show(of, period)
    assert "/db.service" in buffer.getvalue()
    assert "/web.service" not in buffer.getvalue()


def test_the_pages_matrix_sums_to_the_waits() -> None:
    of = made.watched(made.steady())
    table = matrix(made.report(of), "cpu")
    assert table.columns == ("/batch.service", "itself", "other reasons")
    assert [row.victim for row in table.rows] == ["/web.service", "/db.service"]
    assert table.rows[0].cells["/batch.service"].heat == "h5"
    assert table.rows[0].cells["itself"].heat == "h0"
    assert timeline(made.report(made.watched([])), "cpu") is None


def test_a_hostile_name_stays_text() -> None:
    name = "/<script>alert(1)</script>"
    rows = [(n * S, "cpu", name, "</style><img src=x onerror=alert(1)>", S // 3) for n in range(1, 8)]
    page = render_watch(made.report(made.watched(rows)))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)" in page
