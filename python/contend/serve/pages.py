"""Pages: one for each path, made from the index with the templates and figures of the reports."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from contend.analysis.two_runs import UNREADABLE, compare_runs
from contend.analysis.two_runs_words import changed_cells, headline, notes
from contend.errors import BadInput, ContendError
from contend.report.html import environment, resource, script_json
from contend.report.theme import stylesheet
from contend.report.trend_plots import trend_plot
from contend.report.vega import embedded, vega_runtime
from contend.report.words import percent
from contend.serve.answers import HTML, PICTURE, REPORT, Answer, redirect
from contend.serve.files import open_file, opened
from contend.serve.index import FILTERS, ORDERS, Filter, Index, Recent
from contend.serve.reading import REPORT as REPORT_FILE
from contend.serve.reading import RUN, Entry
from contend.serve.sparks import spark
from contend.serve.trend import Trend, make_trend
from contend.store.directory import RunDirectory
from contend.text.masking import mask
from contend.text.safe import safe
from contend.units import format_ratio, format_value

Query = Mapping[str, Sequence[str]]
SVG = "http://www.w3.org/2000/svg"
LONGEST = 1000  # characters of one value of a query
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
ASSETS = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
ASSETS["vega.js"] = ASSETS["page.js"]


class Pages:
    """Pages of one index. Called from many threads."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @property
    def folder(self) -> str:
        return str(self._index.folder)

    def answer(self, parts: Sequence[str], query: Query) -> Answer:
        """The page at a path, given as its parts, which were split before they were unquoted."""
        match list(parts):
            case [""]:
                return self._list(query)
            case ["assets", name] if name in ASSETS:
                return Answer(self._asset(name).encode(), 200, ASSETS[name])
            case ["run", name]:
                return self._run(name)
            case ["run", name, "spark.svg"]:
                return self._spark(name)
            case ["run", name, "report.html"]:
                return self._report(name)
            case ["compare"]:
                return self._compare(query)
            case ["trend"]:
                return self._trend(query)
        return self.message(404, "There is no such page.", "the list of runs is at /")

    def message(self, status: int, text: str, hint: str = "") -> Answer:
        return self._page("serve-message.html.j2", status, title=text, text=text, hint=hint)

    def _list(self, query: Query) -> Answer:
        wanted = _filter(query)
        listing = self._index.page(wanted)
        if wanted.page > listing.pages:
            wanted = replace(wanted, page=listing.pages)
            listing = self._index.page(wanted)
        return self._page(
            "serve-list.html.j2", title="Runs", asked=wanted, listing=listing, link=_links(wanted)
        )

    def _run(self, name: str) -> Answer:
        entry = self._index.entry(name)
        if entry is None:
            return self._no_run(name)
        alike = [e for e in self._index.alike(entry) if e.whole] if entry.question else []
        cells = [cell for cell in entry.cells if not cell.control] if entry.whole else []
        figures: dict[str, list[str]] = {}
        for cell, metric in self._index.figures(entry):
            figures.setdefault(cell, []).append(metric)
        return self._page(
            "serve-run.html.j2",
            title=entry.title or entry.name,
            entry=entry,
            runs=len(alike),
            others=[other for other in reversed(alike) if other.name != entry.name],
            cells=[(cell, figures[cell.id]) for cell in cells if cell.id in figures],
            sparks={(of.cell, of.metric): _spark(entry, of) for of in self._index.recent(entry)},
        )

    def _spark(self, name: str) -> Answer:
        """The headline figure of a run and of those before it; nothing to see where it is the first."""
        entry = self._index.entry(name)
        if entry is None:
            return self._no_run(name)
        recent = self._index.recent(entry)
        drawn = _spark(entry, recent[0]) if recent else f'<svg xmlns="{SVG}" width="1" height="1"/>'
        return Answer(drawn.encode(), content_type="image/svg+xml", policy=PICTURE)

    def _report(self, name: str) -> Answer:
        """The report as it is, of a plain file in a plain directory of the place; nothing else is ever opened."""
        if self._index.entry(name) is None:
            return self._no_run(name)
        try:
            with opened(self._index.folder, name) as directory:
                fd = open_file(directory, REPORT_FILE)
        except OSError:
            hint = f"contend report {name} makes one"
            return self.message(404, f"{name} has no report yet.", hint)
        modified = os.fstat(fd).st_mtime_ns
        return Answer(file=fd, policy=REPORT, content_type=HTML, headers={"ETag": f'"{modified:x}"'})

    def _no_run(self, name: str) -> Answer:
        return self.message(
            404,
            f"There is no run called {name[:LONGEST]!r} here.",
            "it may have been removed: the list has those there are",
        )

    def _compare(self, query: Query) -> Answer:
        chosen = [*_all(query, "run")]
        first, second = _one(query, "first"), _one(query, "second")
        if not first and not second:
            if len(chosen) != 2:
                return self.message(
                    400, f"Two runs are compared, and {len(chosen)} were chosen.", "choose two in the list"
                )
            there = [self._index.entry(name) for name in chosen]
            ordered = sorted((e for e in there if e is not None), key=lambda e: (e.began, e.name))
            if len(ordered) == 2:
                pair = {"first": ordered[0].name, "second": ordered[1].name}
                return redirect(f"/compare?{urlencode(pair)}")
            first, second = chosen
        a, b = self._index.entry(first), self._index.entry(second)
        if a is None or b is None:
            return self._no_run(first if a is None else second)
        for entry in (a, b):
            if not entry.whole:
                why = "; ".join(entry.wrong) or (
                    "it is a recording: it has no trials" if entry.kind != RUN else "it has no rows"
                )
                return self.message(
                    422,
                    f"{entry.name} cannot be compared: {why}.",
                    "choose two finished runs of one scenario",
                )
        folder = self._index.folder
        paths = [folder / e.name for e in sorted(self._index.alike(a), key=lambda e: e.name)]
        try:
            comparison = compare_runs(
                RunDirectory(folder / a.name), RunDirectory(folder / b.name), candidates=paths
            )
        except BadInput as error:
            return self.message(422, f"{error.message}.", error.hint)
        except UNREADABLE as error:
            reason = error.message if isinstance(error, ContendError) else repr(error)
            return self.message(
                422,
                f"These two cannot be compared: {reason}.",
                "contend report RUN says what is wrong with one",
            )
        return self._page(
            "serve-compare.html.j2",
            title=f"{a.name} and {b.name}",
            first=a,
            second=b,
            warnings=comparison.warnings,
            answer=headline(comparison),
            rows=changed_cells(comparison),
            notes=notes(comparison),
        )

    def _trend(self, query: Query) -> Answer:
        question, host = _one(query, "question"), _one(query, "host")
        cell, metric = _one(query, "cell"), _one(query, "metric")
        groups = self._index.groups()
        newest = next((e for e, _ in groups if e.question == question and e.host == host), None)
        if not question:
            return self._page("serve-trends.html.j2", title="Trends", groups=groups)
        if newest is None:
            return self.message(
                404, "No run of that scenario on that host is here.", "the trends there are: /trend"
            )
        known = {each.id: each.label for each in newest.cells}
        label = known.get(cell, cell)
        sessions = self._index.sessions(question, host, cell, metric)
        if not sessions.levels:
            why = f"None of its {len(sessions.unread)} runs has a {metric[:60] or 'metric'} of {label[:60] or 'that cell'}."
            return self.message(404, why, "a run's page lists what it measured")
        trend = make_trend(sessions)
        what = f"{metric} of {label}"
        plot = trend_plot(trend, what)
        charts = script_json(embedded({plot.id: plot.spec}))
        return self._page(
            "serve-trend.html.j2",
            title=what,
            newest=newest,
            trend=trend,
            plot=plot,
            charts=charts,
            better=trend.points[0].better,
            figures=self._index.figures(newest),
            labels=known,
            cell=cell,
            metric=metric,
            spread=_spread(trend),
        )

    def _asset(self, name: str) -> str:
        if name == "vega.js":
            return vega_runtime()
        return resource("report.js") if name == "page.js" else _style()

    def _page(self, template: str, status: int = 200, *, charts: str = "{}", **variables: Any) -> Answer:
        text = (
            _templates()
            .get_template(template)
            .render(charts=charts, drawn=charts != "{}", place=self.folder, **variables)
        )
        return Answer(text.encode("utf-8", "replace"), status)


@functools.cache
def _style() -> str:
    return stylesheet() + resource("report.css") + resource("serve.css")


@functools.cache
def _templates() -> Any:
    made = environment()
    made.globals.update(
        bytes_of=size_text,
        path=lambda name: f"/run/{quote(name, safe='')}",
        trend_path=trend_path,
        when=lambda utc: f"{utc[:16].replace('T', ' ')}" if utc else "",
        ratio_text=lambda e: format_ratio(e.value, e.low, e.high),
        level_text=level_text,
        interval_text=interval_text,
        percent=percent,
    )
    return made


def _spark(entry: Entry, of: Recent) -> Markup:
    labels = {cell.id: cell.label for cell in entry.cells}
    low, high = (format_value(value, of.unit) for value in (min(of.values), max(of.values)))
    says = f"{of.metric} of {labels.get(of.cell, of.cell)}: the last {len(of.values)} runs, {low} to {high}"
    return Markup(spark(of.values, mask(safe(says))))


def trend_path(entry: Entry, cell: str, metric: str) -> str:
    query = {"question": entry.question, "host": entry.host, "cell": cell, "metric": metric}
    return f"/trend?{urlencode(query)}"


def level_text(estimate: Any) -> str:
    return format_value(estimate.value, estimate.unit)


def interval_text(estimate: Any) -> str:
    if estimate.verdict != "level":
        return "too few trials"
    return f"{format_value(estimate.low, estimate.unit)} … {format_value(estimate.high, estimate.unit)}"


def size_text(size_bytes: int, exact: bool = True) -> str:
    """
    >>> size_text(1_234_567), size_text(900), size_text(5 * 2**30, exact=False)
    ('1.2 MiB', '900 B', 'at least 5.0 GiB')
    """
    text = f"{size_bytes} B"
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= size:
            text = f"{size_bytes / size:.1f} {unit}"
            break
    return text if exact else f"at least {text}"


def _spread(trend: Trend) -> str:
    """How much runs of one level differ, in words; what is needed where nobody knows."""
    since = trend.changes[-1].after if trend.changes else (0, len(trend.points))
    runs = since[1] - since[0]
    if trend.apart != trend.apart:
        return f"{runs} run{'s' * (runs != 1)} of the present level: 5 are needed to know how much unchanged runs differ."
    return (
        f"The {runs} runs of the present level vary by {percent(trend.spread)} (standard deviation); two of them differ"
        f" by up to {percent(trend.apart)} for no reason."
    )


def _one(query: Query, name: str) -> str:
    return query.get(name, [""])[-1].replace("\0", "").strip()[:LONGEST]


def _all(query: Query, name: str) -> list[str]:
    return [value.strip()[:LONGEST] for value in query.get(name, []) if value.strip()]


def _filter(query: Query) -> Filter:
    """Read a filter; what is not understood is left out: a list is shown in any case."""
    fields = {name: _one(query, name) for name in FILTERS if name not in ("page", "order")}
    for day in ("since", "until"):
        fields[day] = fields[day] if _DAY.fullmatch(fields[day]) else ""
    page, order = _one(query, "page"), _one(query, "order")
    return Filter(
        **fields,
        order=order if order in ORDERS else "when",
        page=max(1, int(page[:9])) if page.isascii() and page.isdigit() else 1,
    )


def _links(wanted: Filter) -> Any:
    """A link to the same list with something changed."""

    def link(**changed: Any) -> str:
        fields = {name: getattr(wanted, name) for name in FILTERS} | {"page": 1} | changed
        plain = {"order": "when", "page": 1}
        given = {k: v for k, v in fields.items() if v and v != plain.get(k)}
        return "/?" + urlencode(given) if given else "/"

    return link
