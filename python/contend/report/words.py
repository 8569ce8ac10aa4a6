"""Words and numbers of reports: the same in the terminal and on the page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from contend.document import Analysis, CellResult, Control, Level
from contend.report.matrix import compared, is_compare, subject
from contend.report.model import ReportInput
from contend.stats.estimate import Estimate
from contend.units import NS_PER_S, format_value, ratio_decimals, ratio_parts, within

MARKS: Mapping[str, str] = {"unaffected": "=", "undecided": "?"}
"""What stands beside a ratio whose interval holds 1, by verdict."""


WAITS: Mapping[str, str] = {
    "run queue": "waits for the CPU",
    "throttling": "is throttled by a quota",
    "disk queue": "waits for the disk",
    "fsync": "waits for fsync",
    "writeback": "waits for writeback",
    "file lock": "waits for a file lock",
    "page cache": "reads again what left the page cache",
    "page faults": "waits for page faults",
    "threads of one core": "shares its core's threads",
    "cache": "shares the cache",
    "memory bandwidth": "shares memory bandwidth",
    "network send": "waits to send",
    "peers": "waits for its peers",
    "hypervisor": "loses time to the hypervisor",
    "dearer execution": "executes more slowly",
}
"""What a victim does more of, by the cause of a finding."""


def why(cell: CellResult, analysis: Analysis) -> str:
    """The leading cause of a slowdown, with its share: `waits for the CPU, 96 %`; empty where no finding names one."""
    for finding in analysis.findings:
        if finding.subject == subject(cell.factors) and finding.estimate == cell.estimate and finding.causes:
            first = finding.causes[0]
            return f"{WAITS.get(first.resource, first.resource)}, {percent(min(1.0, first.share))}"
    return ""


def mark(estimate: Estimate) -> str:
    """The mark of a verdict, after a space; empty for any other."""
    return f" {MARKS[estimate.verdict]}" if estimate.verdict in MARKS else ""


def marks(verdicts: Iterable[str], matters: float) -> str:
    """Explain the marks of these verdicts; empty where none has one.

    >>> marks(["higher", "undecided", "unaffected"], 0.03)
    '= unaffected: within ±3 %   ? undecided: it may be none, or one that matters'
    """
    seen = set(verdicts)
    meanings = {
        "unaffected": f"unaffected: {within(matters)}",
        "undecided": "undecided: it may be none, or one that matters",
    }
    return "   ".join(f"{MARKS[verdict]} {text}" for verdict, text in meanings.items() if verdict in seen)


def no_findings(analysis: Analysis) -> str:
    """The reason why there is no finding, to follow `Findings:`."""
    headline = [cell.estimate for cell in analysis.cells if cell.metric.primary]
    known = bool(headline) and all(estimate.known for estimate in headline)
    return analysis.own.nothing_found(analysis, known=known)


def probe_cost(analysis: Analysis) -> str:
    """A few words on what recording cost; empty where it is not known.

    >>> from types import SimpleNamespace
    >>> from contend.document import ProbeCost
    >>> probe_cost(SimpleNamespace(probe=ProbeCost(600, 240_000_000, 0, 60_000_000_000)))
    '0.4 % of one CPU (600 samples)'
    """
    cost = analysis.probe
    return "" if cost is None else f"{cost.share * 100:.2g} % of one CPU ({cost.samples} samples)"


def split_ratio(estimate: Estimate) -> tuple[str, str]:
    """Value and interval of a ratio, apart: the interval deserves a line of its own where room is scarce.

    >>> split_ratio(Estimate(2.021, 1.981, 2.069, "ratio", 9, 0.95, "HL", "higher"))
    ('2.02', '[1.98, 2.07]')
    >>> split_ratio(Estimate(0.99, 0.98, 0.998, "ratio", 9, 0.95, "HL", "lower"))
    ('0.990', '[0.980, 0.998]')
    """
    if not math.isfinite(estimate.value):
        return "?", "[no figure]"
    low, high = estimate.low, estimate.high
    decimals = ratio_decimals(low, high)
    if decimals is not None and estimate.differs:
        # An interval that excludes 1 must not read as if it held it: show the digit that tells.
        near = low if estimate.verdict == "higher" else high
        while decimals < 4 and float(f"{near:.{decimals}f}") == 1:
            decimals += 1
    return ratio_parts(estimate.value, low, high, decimals or 1)


def ratio(estimate: Estimate) -> str:
    """Value, interval, and the mark of its verdict."""
    return " ".join(split_ratio(estimate)) + mark(estimate)


def level(of: Level) -> str:
    return format_value(of.estimate.value, of.estimate.unit)


def effect(cell: CellResult, analysis: Analysis) -> str:
    """`worse`, `better`, `unaffected`, `undecided`, `flagged` (no clean trial) or `unknown` (no interval)."""
    verdict = cell.estimate.verdict
    if not cell.estimate.known:
        return "unknown"
    if cell.all_flagged:
        return "flagged"
    if not cell.estimate.differs:
        return verdict
    worse = "lower" if is_compare(analysis) and cell.metric.better == "higher" else "higher"
    return "worse" if verdict == worse else "better"


def effect_words(cell: CellResult, analysis: Analysis) -> str:
    """The verdict in words, for those who see neither colour nor position: `slower`, `12 % less: better`."""
    what = effect(cell, analysis)
    if what == "unknown":
        return "refused" if cell.estimate.verdict == "refused" else "no verdict"
    if what == "flagged":
        return "all trials flagged"
    if what in MARKS:
        return what
    if is_compare(analysis):
        more = "more" if cell.estimate.value > 1 else "less"
        return f"{percent(abs(cell.estimate.value - 1))} {more}: {what}"
    return "slower" if what == "worse" else "faster"


def percent(fraction: float) -> str:
    """A fraction in percent, with two significant digits.

    >>> percent(0.0191), percent(0.2), percent(1.5), percent(float("inf"))
    ('1.9 %', '20 %', '150 %', 'any')
    """
    if not math.isfinite(fraction) or fraction >= 1e9:
        return "any"
    value = fraction * 100
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def detectable(control: Control) -> str:
    known = math.isfinite(control.detectable) and control.detectable < 1e9
    return percent(control.detectable) if known else "unknown (too few blocks)"


def level_text(analysis: Analysis) -> str:
    """The interval's level, as `95 % interval`, and how many intervals hold simultaneously, where several do."""
    levels = [c.estimate.level for c in analysis.cells if c.metric.primary] or [0.95]
    text = f"{percent(levels[0])} interval"
    many = analysis.design.simultaneous
    return f"{text}s, all {many} at once" if many > 1 else text


def numbers(analysis: Analysis) -> str:
    """How many blocks each headline comparison has; empty where there is none."""
    each = sorted({cell.estimate.n for cell in compared(analysis) if cell.metric.primary})
    if not each:
        return ""
    many = str(each[0]) if len(each) == 1 else f"{each[0]}–{each[-1]}"
    return f"{many} block{'s' if each[-1] != 1 else ''}"


def closed_loop(analysis: Analysis) -> list[str]:
    """Names (victim and metric) whose load generator waits for each answer: never a user's latency."""
    closed = [c for c in analysis.cells if c.metric.loop == "closed"]
    return list(dict.fromkeys(f"{subject(c.factors)} {c.metric.name}".strip() for c in closed))


def undecided(analysis: Analysis) -> str:
    """A sentence on what would decide the headline comparisons that are undecided; empty where none is."""
    open_ = [
        cell for cell in compared(analysis) if cell.metric.primary and effect(cell, analysis) == "undecided"
    ]
    decisions = [cell.decision for cell in open_ if cell.decision is not None]
    if not decisions:
        return ""
    most = max(decisions, key=lambda of: of.blocks)
    who = "1 comparison is undecided" if len(open_) == 1 else f"{len(open_)} comparisons are undecided"
    them = "it" if len(open_) == 1 else "them"
    if most.seconds is None:
        return f"{who}: {most.blocks} blocks in all should decide {them}"
    layout = analysis.layout
    if not (budget := _budget(most.seconds, layout.longest_s)):
        return f"{who}: more than {_hours(layout.longest_s)} would decide {them} here, sooner with {layout.sooner}"
    return f"{who}: --budget {budget} ({most.blocks} blocks in all) should decide {them}"


def all_flagged(analysis: Analysis) -> str:
    """A sentence on the headline comparisons without a clean trial on one side; empty where there is none."""
    shown = [cell for cell in compared(analysis) if cell.metric.primary]
    dirty = sum(effect(cell, analysis) == "flagged" for cell in shown)
    if not dirty:
        return ""
    return f"every trial was flagged in {dirty} of {len(shown)} comparisons: read their figures as those of a busy host"


def missed(analysis: Analysis) -> list[str]:
    """Names (victim and metric) whose target precision was not reached."""
    return [name.strip() for name, reached in analysis.design.target_reached.items() if not reached]


def budget_needed(report: ReportInput) -> str:
    """The `--budget` that should reach the target: half-widths shrink with the root of the number of blocks.

    An empty string where nothing was missed, no interval exists yet to extrapolate from, or the answer would
    be longer than anybody waits: then the honest advice is what brings one sooner.
    """
    analysis = report.analysis
    target = analysis.design.target
    names = set(missed(analysis))
    if not target or not names or not report.elapsed_ns:
        return ""
    widths = [
        c.estimate.relative_half_width
        for c in analysis.cells
        if f"{subject(c.factors)} {c.metric.name}".strip() in names
    ] or [c.estimate.relative_half_width for c in analysis.cells if c.metric.primary]
    widest = max(widths, default=math.inf)
    if not math.isfinite(widest):
        return ""
    needed_s = report.elapsed_ns / NS_PER_S * max(1.0, (widest / target) ** 2)
    return _budget(needed_s, analysis.layout.longest_s)


def _budget(seconds: float, longest_s: float) -> str:
    """So many seconds as a --budget, rounded up; empty where it is longer than that.

    >>> _budget(700, 86400), _budget(7000, 86400), _budget(90_000, 86400)
    ('15m', '2h', '')
    """
    if seconds > longest_s:
        return ""
    minutes = math.ceil(seconds / 60)
    step = 1 if minutes <= 10 else 5 if minutes <= 60 else 30
    minutes = math.ceil(minutes / step) * step
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def _hours(seconds: float) -> str:
    """
    >>> _hours(3600), _hours(86400)
    ('an hour', 'a day')
    """
    return "a day" if seconds >= 24 * 3600 else "an hour"


def command_with_budget(report: ReportInput) -> str:
    """The command of this run with the budget that should reach the target; empty where there is none."""
    budget = budget_needed(report)
    plain = report.command.replace(" --set measure.budget=", " --budget ")  # as a run records it
    plain, dashes, users = plain.partition(" -- ")  # what follows is a command of the user's
    command, replaced = re.subn(r"--(budget|for)[= ]\S+", f"--budget {budget}", plain)
    return "" if not budget else (command if replaced else f"{command} --budget {budget}") + dashes + users


def target_line(report: ReportInput, *, command_follows: bool = False) -> str:
    """A sentence on the wanted precision: reached, or what to do. Empty without a target, or without a comparison.

    command_follows: the command that should reach it stands below.
    """
    design = report.analysis.design
    if design.target is None or not report.analysis.cells:
        return ""
    names = missed(report.analysis)
    if not names:
        return f"target ±{percent(design.target)} reached after {design.blocks} blocks"
    few = all(c.estimate.verdict == "too few" for c in report.analysis.cells)
    if budget := budget_needed(report):
        advice = "" if command_follows else f": --budget {budget}"
    elif few:
        advice = ": more blocks are needed, so a larger --budget"
    else:
        advice = f": needs {report.analysis.layout.sooner}"
    some = (
        "not reached" if len(names) == len(design.target_reached) else f"not reached for {', '.join(names)}"
    )
    return f"target ±{percent(design.target)} {some} ({design.stopped}){advice}"
