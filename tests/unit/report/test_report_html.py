"""What must hold of the page and the plots, whatever the run: no browser needed."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest

from contend.errors import BadInput
from contend.report.html import render_html, save
from contend.report.model import ReportInput
from contend.report.plots import all_plots, save_plots, standalone
from contend.report.series import Timelines, read_timelines
from contend.report.theme import TOKENS, resolve
from support import report_samples as samples

VOID = {"meta", "link", "br", "img", "input", "hr"}
CASES = ["interference", "matrix_8x8", "one_by_one", "too_few", "hostile", "compare_study"]


class Page(HTMLParser):
    """Elements, ids and references of a page; refuses a page whose tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.references: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            if name == "id":
                self.ids[value or ""] += 1
            elif name in ("aria-labelledby", "aria-describedby", "for", "data-copy"):
                self.references += (value or "").split()
            elif name in ("href", "src", "srcset", "action", "poster", "data"):
                self.links.append(value or "")
            assert not name.startswith("on"), f"an event handler as an attribute: {name}"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module", params=CASES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    make = getattr(samples, request.param)
    with_series = request.param in ("interference", "matrix_8x8", "hostile")
    made: ReportInput = make(tmp_path_factory.mktemp("run")) if with_series else make()
    return made


@pytest.fixture(scope="module")
def text(report: ReportInput) -> str:
    return render_html(report)


def test_the_page_nests_and_refers_only_to_itself(text: str) -> None:
    page = Page(text)
    assert [i for i, n in page.ids.items() if n > 1] == []
    assert set(page.references) <= page.ids.keys()
    assert all(link.startswith(("#", "data:,")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids.keys()
    assert "url(" not in text.partition("</style>")[0]
    assert "default-src 'none'" in text
    assert page.tags["main"] == page.tags["h1"] == 1
    assert page.tags["script"] == 4
    assert text.count("vegaEmbed=") == 1, "the runtime is in the page once"


def test_headings_go_down_one_step_at_a_time(text: str) -> None:
    headings = Page(text).headings
    assert headings[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))


def test_every_figure_has_a_name_a_caption_and_its_figures_as_a_table(report: ReportInput, text: str) -> None:
    page = Page(text)
    plots = all_plots(report)
    for plot in plots:
        assert {f"chart-{plot.id}", f"title-{plot.id}", f"caption-{plot.id}"} <= page.ids.keys()
        assert plot.caption.endswith(".")
        assert plot.table
        assert all(len(row) == len(plot.headers) for row in plot.table)
    assert page.tags["details"] >= len(plots)


def test_hostile_names_and_errors_stay_text(tmp_path: Path) -> None:
    report = samples.hostile(tmp_path)
    text = render_html(report)
    for raw in ("<script>alert", "<img src=x", "</script><b>"):
        assert raw not in text
    page = Page(text)
    assert page.tags["img"] == page.tags["b"] == 0
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "No such file" in text


@pytest.mark.parametrize(("rounds", "told"), [(3, "3 rounds"), (1, "1 round")])
def test_the_method_says_how_long_the_warm_up_was(rounds: int, told: str) -> None:
    report = samples.interference()
    design = dataclasses.replace(report.analysis.design, warmup={"rounds": rounds}, spiky=0.25)
    page = render_html(
        dataclasses.replace(report, analysis=dataclasses.replace(report.analysis, design=design))
    )
    assert f"<dt>Warm-up</dt><dd>{told}, not counted</dd>" in page
    assert "hold together" not in page
    assert "<dt>Spikes</dt><dd>25 % of the trials in the warm-up</dd>" in page


@pytest.mark.parametrize(("resource", "unexplained"), [("unexplained", True), ("size", False)])
def test_a_finding_without_evidence_is_unexplained_only_where_it_says_so(
    resource: str, unexplained: bool
) -> None:
    report = samples.interference()
    found = dataclasses.replace(report.analysis.findings[0], resource=resource, evidence=())
    page = render_html(
        dataclasses.replace(report, analysis=dataclasses.replace(report.analysis, findings=(found,)))
    )
    assert html.escape(found.sentence) in page
    assert ("what slows it is unexplained" in page) == unexplained
    assert ("<h4>Evidence</h4>" in page) == unexplained


def test_nothing_that_failed_was_skipped_or_flagged_is_kept_from_the_reader(tmp_path: Path) -> None:
    report = samples.interference(tmp_path, failing="exit code 137: killed")
    text = render_html(report)
    for said in (*report.analysis.skipped, *report.analysis.failed, *report.analysis.flags):
        assert said.replace("'", "&#39;") in text
    assert report.analysis.failed and report.analysis.findings
    for finding in report.analysis.findings:
        assert finding.verify in text
    assert report.command in text
    assert "Retpolines" in text, "the fingerprint is printed whole"


def test_the_specs_are_vega_lite(tmp_path: Path) -> None:
    """Against Vega-Lite's own schema, which Altair ships; too slow to do for every page that is made."""
    import altair

    schema_file = Path(altair.__file__).parent / "vegalite/v6/schema/vega-lite-schema.json"
    schema: dict[str, Any] = json.loads(schema_file.read_text(encoding="utf-8"))
    checker = jsonschema.Draft7Validator({**schema, "$ref": "#/definitions/TopLevelLayerSpec"})
    plots = all_plots(samples.interference(tmp_path, failing="x"))
    assert len(plots) == 14
    for plot in plots:
        for spec in (plot.spec, standalone(plot)):
            small = json.loads(resolve(json.dumps(spec)), object_hook=_first_values_only)
            problem = next(checker.iter_errors(small), None)
            assert problem is None, f"{plot.id}: {problem.message[:300] if problem else ''}"


def _first_values_only(item: dict[str, Any]) -> dict[str, Any]:
    if isinstance(item.get("values"), list) and item["values"] and isinstance(item["values"][0], dict):
        return {**item, "values": item["values"][:2]}
    return item


def test_every_colour_of_a_plot_is_a_token(report: ReportInput) -> None:
    for plot in all_plots(report):
        text = json.dumps(plot.spec)
        assert set(re.findall(r"var\(--([a-z0-9]+)\)", text)) <= TOKENS.keys()
        assert not re.search(r'"#[0-9a-f]{3,6}"', text)


def test_what_a_plot_of_its_own_says_of_others_is_printable_and_masked(report: ReportInput) -> None:
    """The program that makes SVG ends at a control character, and contend with it."""
    bad = "it said: \x1b]0;owned\x07 --password=hunter2secret"
    plot = dataclasses.replace(all_plots(report)[0], title=bad, caption=bad, legend={bad: "red"})
    text = json.dumps(standalone(plot))
    assert "\\u001b" not in text and "owned" in text and "hunter2secret" not in text


def test_plots_are_saved_as_svg_and_png(tmp_path: Path) -> None:
    report = samples.interference(tmp_path)
    paths = save_plots(report, tmp_path / "plots")
    assert len(paths) == 2 * len(all_plots(report))
    for path in paths:
        data = path.read_bytes()
        assert data.startswith(b"<svg" if path.suffix == ".svg" else b"\x89PNG\r\n")
        assert b"var(--" not in data
        assert len(data) > 2000
    with pytest.raises(BadInput):
        save_plots(report, tmp_path, formats=("gif",))


# ---- timelines


def test_counters_become_rates(tmp_path: Path) -> None:
    with duckdb.connect() as db:
        db.sql(
            "COPY (SELECT i * 1000000000 AS t_ns, c AS cpu, (i * 250000000 * (c + 1))::UBIGINT AS user_ns "
            f"FROM range(20) r(i), range(2) s(c)) TO '{tmp_path}/cpu-0000.parquet' (FORMAT parquet)"
        )
        db.sql(
            "COPY (SELECT i * 1000000000 AS t_ns, 'vda' AS device, (i * 100)::UBIGINT AS reads, "
            f"(i * 2000000000)::UBIGINT AS queue_ns FROM range(20) r(i)) TO '{tmp_path}/disk-0000.parquet' (FORMAT parquet)"
        )
    lines = read_timelines(tmp_path, 0)
    assert {s.mean for s in lines.cpu} == {0.75}, "0.25 of one CPU and 0.5 of the other"
    assert {(s.mean, s.line) for s in lines.iops} == {(100.0, "reads")}
    assert {(s.mean, s.line) for s in lines.disk_queue} == {(2.0, "vda")}
    assert lines.queue == lines.pressure == lines.network == []


def test_a_counter_that_went_backwards_gives_no_point(tmp_path: Path) -> None:
    for number, (start, base) in enumerate(((0, 10**12), (5, 0))):
        with duckdb.connect() as db:
            db.sql(
                f"COPY (SELECT ({start} + i) * 1000000000 AS t_ns, {base} + i * 500000000 AS psi_cpu_some_ns "
                f"FROM range(5) r(i)) TO '{tmp_path}/host-{number:04d}.parquet' (FORMAT parquet)"
            )
    lines = read_timelines(tmp_path, 0)
    assert {s.mean for s in lines.pressure} == {50.0}
    assert len(lines.pressure) == 8


def test_a_long_run_is_thinned_and_its_mean_kept(tmp_path: Path) -> None:
    report = samples.matrix_8x8(tmp_path)
    lines = read_timelines(report.series_dir, report.rows[0]["started_ns"])
    user = [s for s in lines.cpu if s.line == "user"]
    assert 300 <= len(user) <= 362


def test_the_programs_of_a_run_are_shown_and_few_of_many(tmp_path: Path) -> None:
    """The victim used four fifths of its time; who used least is put together, so that the page stays small."""
    report = samples.matrix_8x8(tmp_path)
    began, ended = report.rows[0]["started_ns"], report.rows[-1]["ended_ns"]
    lines = read_timelines(report.series_dir, began)
    names = {s.line for s in lines.consumers}
    assert {"victim", "fio", "all others"} <= names
    assert len(names) == 8
    assert len(lines.consumers) <= 8 * 362
    inside = [s.mean for s in lines.consumers if s.line == "victim" and 0 < s.t < (ended - began) / 1e9]
    assert max(inside) == pytest.approx(0.8, rel=0.05)
    assert {s.line for s in lines.disk_users} == {"fio"}
    assert {"timeline-consumers", "timeline-disk-users"} <= {p.id for p in all_plots(report)}


def test_no_series_is_said_not_hidden(tmp_path: Path) -> None:
    assert read_timelines(None, 0) == read_timelines(tmp_path / "none", 0) == Timelines()
    assert Timelines().empty
    assert "recorded no timelines" in render_html(samples.one_by_one())


def test_a_page_is_written_through_no_link(tmp_path: Path) -> None:
    """A page may stand beside a trace in a directory where somebody else can lay links."""
    mine, page = tmp_path / "mine", tmp_path / "page.html"
    mine.write_text("mine")
    page.symlink_to(mine)
    (tmp_path / ".page.html.part").symlink_to(mine)
    assert save("<p>", page) == ""
    assert (mine.read_text(), page.read_text(), page.is_symlink()) == ("mine", "<p>", False)
    assert "No such file" in save("<p>", tmp_path / "none" / "page.html")
