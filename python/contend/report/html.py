"""One self-contained HTML page: the question, the answer, the evidence, what to do, how to check.

Nothing is fetched: style, script, the Vega runtime and the data are in the file, and a content security policy
in it forbids every request.
"""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, FunctionLoader, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from contend.contention.alibi.words import phase_name, short, workload_line
from contend.document import Analysis, CellResult
from contend.files import write
from contend.report import money, words
from contend.report.card import card
from contend.report.matrix import (
    SLOWDOWNS,
    condition,
    control_detail,
    is_compare,
    matrices,
    rows_are,
    secondary,
    subject,
)
from contend.report.model import ReportInput
from contend.report.plotkit import Plot
from contend.report.plots import all_plots
from contend.report.theme import stylesheet
from contend.report.vega import embedded, vega_runtime
from contend.text.masking import mask_value
from contend.text.safe import safe
from contend.units import format_duration, format_value

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


# Heat map: lower ends of the steps, as ratios of the baseline.
HEAT = ((2.0, "h5"), (1.5, "h4"), (1.2, "h3"), (1.05, "h2"), (1.0, "h1"))
MOST_RANGES = 200  # in the list of ranges of the timelines
HEAT_LEGEND = (
    ("f2", "below 0.9"), ("f1", "0.9 – 1"), ("h0", "unaffected"), ("hu", "undecided"), ("hf", "all trials flagged"),
    ("h1", "1 – 1.05"), ("h2", "1.05 – 1.2"),
    ("h3", "1.2 – 1.5"), ("h4", "1.5 – 2"), ("h5", "2 and more"),
)  # fmt: skip


def render_html(report: ReportInput) -> str:
    """The page as text. Names, errors and the scenario are escaped wherever they stand."""
    analysis = report.analysis
    own_plots = analysis.own.plots(report)
    own_ids = {plot.id for plot in own_plots}
    plots = all_plots(report, own_plots)
    tables, layout = matrices(analysis), analysis.layout
    tabled = bool(tables) or (layout.controlled != "no" and analysis.fleet is None)
    kit: dict[str, Any] = {
        "analysis": analysis,
        "report": report,
        "plots": _by_role(plots),
        "target": words.target_line(report, command_follows=True),
        "more": words.command_with_budget(report),
    }
    sections: dict[str, list[str]] = {"above": [], "below": []}
    contents: dict[str, tuple[tuple[str, str], ...]] = {"above": (), "below": ()}
    for shown in analysis.shown:
        if (own := shown.section(report)) is not None:
            where = "below" if own.below else "above"
            sections[where].append(templates().get_template(own.template).render(**kit, **own.values))
            contents[where] += own.contents
    placed = "".join(chain(*sections.values()))
    rest = _by_role(plot for plot in plots if plot.id not in own_ids)
    return page("report", plots, **{**kit, "plots": rest},
        layout=layout,
        tables_title=layout.title or ("Comparison" if is_compare(analysis) else SLOWDOWNS),
        design=analysis.design,
        own_design=analysis.own.design(analysis),
        sections=sections,
        contents=contents,
        unplaced=[
            plot
            for plot in own_plots
            if f'id="figure-{plot.id}"' not in placed
        ],
        tabled=tabled and analysis.own.tabled(analysis),
        compare=is_compare(analysis),
        rows_are=rows_are(analysis),
        matrices=tables,
        secondary=secondary(analysis),
        facts=_facts(report),
        closed=words.closed_loop(analysis),
        machine=list(flatten({k: v for k, v in report.environment.items() if k not in ("topology", "hosts")})),
        heat_legend=HEAT_LEGEND,
        blocks=_blocks(report),
        card=script_json(card(report)) if analysis.answer else "",
    )  # fmt: skip


def _by_role(plots: Iterable[Plot]) -> dict[str, list[Plot]]:
    roles: dict[str, list[Plot]] = defaultdict(list)
    for plot in plots:
        roles[plot.role].append(plot)
    return roles


def page(template: str, drawn: Sequence[Plot], /, *styles: str, **values: Any) -> str:
    """A whole page: a template, what it draws, sheets of style besides those of all, and what it names. With the sample's
    styles alone goes its script."""
    return (
        templates()
        .get_template(f"{template}.html.j2")
        .render(
            **values,
            style=stylesheet() + "".join(resource(f"{name}.css") for name in ("report", *styles)),
            script=resource("report.js") + (resource("sample.js") if template == "sample" else ""),
            vega=vega_runtime() if drawn else "",
            charts=script_json(embedded({plot.id: plot.spec for plot in drawn})),
        )
    )


@functools.cache
def templates() -> Environment:
    """The templates, each compiled once: that takes longer than to fill it."""
    return environment()


def environment() -> Environment:
    """The templates' environment, to which a page may add globals; everything they print is masked and escaped."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader("contend.report"), FunctionLoader(_beside)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_safe,
    )
    made.globals.update(
        words=words,
        money=money,
        short=short,
        workload_line=workload_line,
        phase_name=phase_name,
        heat=heat,
        subject=subject,
        condition=condition,
        control_detail=control_detail,
        value=format_value,
        percent=words.percent,
    )
    made.filters["breakable"] = breakable
    return made


def _beside(name: str) -> tuple[str, str, None] | None:
    """A template that lies beside a study's code, PACKAGE:FILE, or MODULE:FILE of a module in no package; and its path."""
    package, _, file = name.partition(":")
    if not file:
        return None
    if (spec := importlib.util.find_spec(package)) and spec.origin and not spec.submodule_search_locations:
        path: Traversable = Path(spec.origin).with_name(file)
    else:
        path = importlib.resources.files(package) / file
    return path.read_text(encoding="utf-8"), str(path), None


def breakable(text: str, before: str = "", after: str = "") -> Markup:
    r"""Let a line break before or after these characters of a name, and make the name safe: what is marked as escaped goes
    past `_safe`.

    >>> breakable("a<b:7", before=":")
    Markup('a&lt;b<wbr>:7')
    >>> breakable("os.path\x1b[2J", after=".")
    Markup('os.<wbr>path\\x1b[2J')
    """
    shown = str(escape(safe(text)))
    for mark in before:
        shown = shown.replace(mark, f"<wbr>{mark}")
    for mark in after:
        shown = shown.replace(mark, f"{mark}<wbr>")
    return Markup(shown)


def _safe(value: object) -> object:
    """Make safe what a template prints: text of runs, whichever file it came from. What is marked so is contend's own."""
    return safe(value) if type(value) is str else value


def save(text: str, target: Path) -> str:
    """Write a page beside a recording. Returns why it cannot be written (the recording may be another user's); "" when it
    was."""
    try:
        write(target, text.encode())
    except OSError as error:
        return f"cannot write {target}: {error.strerror}"
    return ""


def resource(name: str) -> str:
    """A file beside the templates."""
    return (importlib.resources.files("contend.report") / "templates" / name).read_text(encoding="utf-8")


def script_json(value: object) -> str:
    """JSON that may stand inside a script element, whatever strings it holds; secrets are masked."""
    text = json.dumps(mask_value(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def heat(cell: CellResult, analysis: Analysis) -> str:
    """The heat map's colour of a comparison: only an effect that is shown has one; what is undecided is hatched.

    Ratios as measured (`contend ab`) are turned so that red is worse in every study.
    """
    effect = words.effect(cell, analysis)
    if (
        plain := {"unaffected": "h0", "undecided": "hu", "unknown": "hu", "flagged": "hf"}.get(effect)
    ) is not None:
        return plain
    value = cell.estimate.value
    if is_compare(analysis) and cell.metric.better == "higher" and value > 0:
        value = 1 / value
    if effect == "better":
        return "f2" if value < 0.9 else "f1"
    return next((name for low, name in HEAT if value >= low), "h1")


def _facts(report: ReportInput) -> list[tuple[str, str]]:
    """The line under the answer: how much was done, where, when."""
    analysis, design = report.analysis, report.analysis.design
    own = analysis.own.facts(analysis)
    when = next((str(row["utc"]) for row in report.rows if row.get("utc")), "")
    blocks = f", {design.blocks} counted blocks" if own is None else ""
    known = [str(report.environment[k]) for k in ("cpu", "os") if report.environment.get(k)]
    facts = [
        *(own or ()),
        ("Trials", f"{analysis.trials}{blocks}"),
        ("Took", format_duration(report.elapsed_ns) if report.elapsed_ns else ""),
        ("Seed", str(design.seed) if own is None else ""),
        ("Probe", words.probe_cost(analysis)),
        ("Started on" if analysis.fleet else "Machine", ", ".join(known)),
        ("Began", when[:16].replace("T", " ") + " UTC" if when else ""),
    ]
    return [(name, text) for name, text in facts if text]


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of dotted names and texts from nested values, such as the fingerprint of a host.

    >>> list(flatten({"cpu": "x", "cgroup": {"version": 2, "controllers": ["cpu", "io"]}, "smt": False}))
    [('cpu', 'x'), ('cgroup.version', '2'), ('cgroup.controllers', 'cpu, io'), ('smt', 'no')]
    """
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            yield from flatten(item, f"{name}.")
        elif isinstance(item, list | tuple):
            yield name, ", ".join(str(x) for x in item) or "none"
        elif isinstance(item, bool):
            yield name, "yes" if item else "no"
        else:
            yield name, "unknown" if item is None else str(item)


def _blocks(report: ReportInput) -> list[tuple[str, float, float]]:
    """Name, start and end of the pilot and every block, s since the first trial: a way through the timelines
    for those who cannot drag a brush."""
    timed = [r for r in report.rows if r.get("started_ns") is not None and r.get("ended_ns") is not None]
    origin = min((int(r["started_ns"]) for r in timed), default=0)
    spans: dict[str, tuple[int, int]] = {}
    for row in timed:
        phase = str(row.get("phase"))
        name = phase if phase in ("pilot", "screening") else f"block {int(row.get('block', 0)) + 1}"
        start, end = int(row["started_ns"]), int(row["ended_ns"])
        known = spans.get(name, (start, end))
        spans[name] = (min(start, known[0]), max(end, known[1]))
    return [(name, (a - origin) / 1e9, (b - origin) / 1e9) for name, (a, b) in _grouped(spans)]


def _grouped(spans: Mapping[str, tuple[int, int]]) -> list[tuple[str, tuple[int, int]]]:
    """Names and spans; of very many, several that follow each other as one.

    >>> len(_grouped({f"block {n}": (n, n + 1) for n in range(1000)})), _grouped({"pilot": (0, 5)}), _grouped({})
    (200, [('pilot', (0, 5))], [])
    >>> _grouped({f"block {n}": (n, n + 1) for n in range(1000)})[1]
    ('block 5 to block 9', (5, 10))
    """
    named = list(spans.items())
    at_once = max(1, -(-len(named) // MOST_RANGES))
    groups = [named[n : n + at_once] for n in range(0, len(named), at_once)]
    return [
        (
            of[0][0] if len(of) == 1 else f"{of[0][0]} to {of[-1][0]}",
            (min(a for _, (a, _) in of), max(b for _, (_, b) in of)),
        )
        for of in groups
    ]
