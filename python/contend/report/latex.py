"""The table of a run's headline comparisons for a paper: LaTeX, with booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from contend.document import Analysis, CellResult
from contend.report import words
from contend.report.matrix import Matrix, is_compare, matrices, rows_are, subject
from contend.report.model import ReportInput
from contend.units import within

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}
_TYPESET = {"–": "--", "×": r"$\times$", "µ": r"\textmu{}", "±": r"$\pm$", "→": r"$\to$", "·": r"$\cdot$"}
_ESCAPES = _SPECIAL | _TYPESET
_MARKS = {"unaffected": r"\textsuperscript{\dag}", "undecided": r"\textsuperscript{?}"}


def escape(text: str) -> str:
    r"""
    >>> print(escape("ffmpeg[threads=default], 50 % of a_b"))
    ffmpeg[threads=default], 50 \% of a\_b
    """
    return re.sub("|".join(map(re.escape, _ESCAPES)), lambda match: _ESCAPES[match[0]], text)


def export_latex(report: ReportInput, path: Path, _: float) -> None:
    """Write one `table` a matrix, with ratios and intervals; marks tell what is unaffected and what undecided. An overhead
    study has one table more, of its effects."""
    analysis = report.analysis
    tables = [_table(report, matrix, number) for number, matrix in enumerate(matrices(analysis))]
    tables += _effects(report)
    head = f"% {analysis.run}, made by contend; \\usepackage{{booktabs}}\n"
    path.write_text(head + "\n".join(tables), encoding="utf-8")


def _table(report: ReportInput, matrix: Matrix, number: int) -> str:
    analysis = report.analysis
    heads = [rows_are(analysis), matrix.baseline, *(f"{matrix.beside} {c}".strip() for c in matrix.columns)]
    lines = []
    for row in matrix.rows:
        compared = [matrix.cells.get((row, column)) for column in matrix.columns]
        cells = [escape(row), escape(words.level(matrix.level(row))), *map(_ratio, compared)]
        lines.append(" & ".join(cells) + r" \\")
    metrics = {cell.metric.name for cell in matrix.cells.values()}
    what = "Ratio to the baseline" if is_compare(analysis) else "Slowdown"
    what += f" ({metrics.pop()})" if len(metrics) == 1 and not is_compare(analysis) else ""
    blocks = words.numbers(analysis) or f"{analysis.design.blocks} blocks"
    of = "".join(f", {condition}" for condition in _conditions(matrix))
    about = (
        f"{(analysis.title or analysis.run).rstrip('?.')}: {what[:1].lower()}{what[1:]} with {words.level_text(analysis)};"
        f" {blocks}{of}.{_doubts(analysis)}"
    )
    return _tabular(analysis, str(number), about, f"l{'r' * (len(heads) - 1)}", heads, lines)


def _conditions(matrix: Matrix) -> list[str]:
    """Name what all cells of a table have in common: their placement and platform, where the study has these."""
    if matrix.group:
        return [matrix.group]
    every = [cell.factors for cell in matrix.cells.values()]
    return [
        f"{name} {values.pop()}"
        for name in ("placement", "platform")
        if len(values := {factors[name] for factors in every if name in factors}) == 1
    ]


def _doubts(analysis: Analysis) -> str:
    """The controls of headline metrics, and how much was flagged."""
    controls = [
        f"{subject(c.repeats)} {' '.join(words.split_ratio(c.estimate))}{' (alarm)' if c.alarm else ''}".strip()
        for c in analysis.controls
        if c.metric.primary
    ]
    text = f" A/A control: {'; '.join(controls)}." if controls else ""
    flagged = words.all_flagged(analysis)
    return f"{text} {flagged[:1].upper()}{flagged[1:]}." if flagged else text


def _effects(report: ReportInput) -> list[str]:
    """Tables of what the cells say together, for a study that has that."""
    analysis = report.analysis
    effects = analysis.own.effects(analysis)
    if effects is None:
        return []
    headers, rows = effects
    lines = []
    for (kind, where, ratio, least), verdict in rows:
        mark = _MARKS.get(verdict, "")
        lines.append(" & ".join((escape(kind), escape(where), escape(ratio) + mark, escape(least))) + r" \\")
    about = (
        f"{(analysis.title or analysis.run).rstrip('?.')}: effects, ratios of ratios within blocks;"
        f" {analysis.design.blocks} blocks. The intervals of one kind hold together."
    )
    return [_tabular(analysis, "effects", about, "llrr", headers, lines)]


def _tabular(
    analysis: Analysis, number: str, about: str, columns: str, heads: Sequence[str], lines: Sequence[str]
) -> str:
    run = analysis.run
    notes = {
        "unaffected": f"Unaffected, {escape(within(analysis.design.matters))}.",
        "undecided": "Undecided.",
    }
    marks = [f" {mark} {notes[name]}" for name, mark in _MARKS.items() if any(mark in line for line in lines)]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape(about)}{''.join(marks)}}}",
            rf"\label{{tab:{re.sub(r'[^a-z0-9]+', '-', run.lower())}-{number}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(escape(head) for head in heads) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _ratio(cell: CellResult | None) -> str:
    if cell is None:
        return ""
    text = escape(" ".join(words.split_ratio(cell.estimate)))
    return text + _MARKS.get(cell.estimate.verdict, "")
