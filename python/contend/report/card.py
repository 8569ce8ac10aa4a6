"""A run on one card to share: its question, the answer, the largest effects, how much was done, where, when, and how.

1,200 × 630 pixels, as chats and social pages show them. It is SVG, which the page turns into a PNG in the browser, and
vl-convert in a terminal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from contend.document import Analysis, CellResult
from contend.errors import HostFailed
from contend.files import write
from contend.report import words
from contend.report.matrix import condition, is_compare, matrices, subject
from contend.report.model import ReportInput
from contend.report.theme import TOKENS
from contend.text.masking import mask
from contend.text.printable import printable

WIDTH, HEIGHT = 1200, 630
MARGIN = 56
MOST_ROWS = 5
_ROOM = WIDTH - 2 * MARGIN
_LABELS, _FIGURES = 400, 210
"""Pixels of a row's name, and of its ratio with its interval; the bar has the rest."""
MONOSPACE = 0.61
"""Width of a letter of a monospaced font, in sizes."""
_NARROW = frozenset("iljtfr.,:;'|!()[] ")


def card(report: ReportInput) -> str:
    """The card as SVG, light, with secrets masked."""
    analysis = report.analysis
    return "".join(_drawn(report, _comparisons(analysis)))


def save_card(report: ReportInput, path: Path) -> None:
    """Write the card as PNG, or as SVG where the name ends so. Raises HostFailed for PNG without the extra `plots`."""
    text = card(report)
    if path.suffix == ".svg":
        write(path, text.encode("utf-8"))
        return
    try:
        import vl_convert
    except ImportError:
        raise HostFailed(
            "a card as PNG needs vl-convert, which is not installed",
            hint="pip install 'contend[plots]'; --card card.svg needs nothing, nor does the page's button",
        ) from None
    write(path, vl_convert.svg_to_png(text))


def _drawn(report: ReportInput, cells: list[CellResult]) -> Iterator[str]:
    analysis = report.analysis
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{_colour("page")}"/>'
        f'<rect width="{WIDTH}" height="10" fill="{_colour("c1")}"/>'
    )
    yield _text(MARGIN, 62, _shortened(analysis.title or analysis.run, 22, _ROOM - 120), 22, "soft")
    yield _text(WIDTH - MARGIN, 62, "contend", 22, "c1", anchor="end", weight=700)
    most = 3 if cells else 7
    size = 40 if len(_wrapped(analysis.answer, 40, _ROOM)) <= most else 32
    lines = _wrapped(analysis.answer or "No answer yet.", size, _ROOM)
    if len(lines) > most:
        lines = [*lines[: most - 1], _shortened(" ".join(lines[most - 1 :]), size, _ROOM)]
    y = 80.0
    for line in lines:
        y += size * 1.28
        yield _text(MARGIN, y, line, size, "ink", weight=650)
    yield from _bars(analysis, cells, y + 46)
    rule = HEIGHT - 104
    ends = f'x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{rule}" y2="{rule}"'
    yield f'<line {ends} stroke="{_colour("line")}" stroke-width="1.5"/>'
    yield _text(MARGIN, rule + 36, _shortened(_facts(report), 20, _ROOM), 20, "soft")
    command = f"$ {mask(report.command)}"
    if len(command) * MONOSPACE * 20 > _ROOM:
        command = f"{command[: int(_ROOM / MONOSPACE / 20) - 1].rstrip()}…"
    yield _text(MARGIN, rule + 70, command, 20, "ink", family="ui-monospace, DejaVu Sans Mono, monospace")
    yield "</svg>"


def _comparisons(analysis: Analysis) -> list[CellResult]:
    """The headline comparisons that have an interval, the largest effects first."""
    cells = [cell for matrix in matrices(analysis) for cell in matrix.cells.values()]
    cells = [
        cell for cell in cells if cell.estimate.known and cell.estimate.value > 0 and cell.metric.primary
    ]
    return sorted(cells, key=lambda cell: -abs(math.log(cell.estimate.value)))[:MOST_ROWS]


def _bars(analysis: Analysis, cells: list[CellResult], top: float) -> Iterator[str]:
    """A row a comparison: its name, a bar from no effect to its ratio with the interval over it, and the figures."""
    if not cells:
        return
    edges = [
        edge
        for cell in cells
        for edge in (cell.estimate.low, cell.estimate.high)
        if edge > 0 and math.isfinite(edge)
    ]
    low, high = math.log(min(0.95, *edges)), math.log(max(1.05, *edges))
    left, room = MARGIN + _LABELS, _ROOM - _LABELS - _FIGURES - 24
    pitch = min(64.0, (HEIGHT - 130 - top) / len(cells))

    def x(ratio: float) -> float:
        return left + room * (min(max(math.log(max(ratio, 1e-9)), low), high) - low) / (high - low)

    bottom = top + pitch * len(cells)
    yield (
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{top - 6:.1f}" y2="{bottom:.1f}" stroke="{_colour("soft")}"'
        ' stroke-dasharray="3 4"/>'
    )
    compare = is_compare(analysis)
    one = len({subject(cell.factors) for cell in cells}) == 1
    for number, cell in enumerate(cells):
        middle = top + pitch * (number + 0.5)
        effect = words.effect(cell, analysis)
        colour = _colour({"worse": "bad", "better": "good"}.get(effect, "alone"))
        begin, end = sorted((x(1), x(cell.estimate.value)))
        how = condition(cell, analysis)
        name = cell.metric.name if compare else how if one else f"{subject(cell.factors)} {how}"
        name = f"{cell.factors.get('variant', '')} {name}".strip() if compare else name
        yield _text(MARGIN, middle + 7, _shortened(name, 22, _LABELS - 24), 22, "ink")
        yield (
            f'<rect x="{begin:.1f}" y="{middle - 13:.1f}" width="{max(2.0, end - begin):.1f}" height="26" rx="3"'
            f' fill="{colour}" fill-opacity="{0.35 if effect in ("undecided", "unaffected") else 0.85}"/>'
            f'<line x1="{x(cell.estimate.low):.1f}" x2="{x(cell.estimate.high):.1f}" y1="{middle:.1f}" y2="{middle:.1f}"'
            f' stroke="{_colour("ink")}" stroke-width="2.5"/>'
        )
        value, interval = words.split_ratio(cell.estimate)
        shown = f"{value}× {interval.strip('[]').replace(', ', '–')}{words.mark(cell.estimate)}"
        yield _text(WIDTH - MARGIN, middle + 7, shown, 22, "ink", anchor="end")


def _facts(report: ReportInput) -> str:
    """The machine, how much was measured, and when."""
    analysis, environment = report.analysis, report.environment
    when = next((str(row["utc"])[:10] for row in report.rows if row.get("utc")), "")
    cpus = environment.get("cpus")
    # Without what only makers of processors and of systems put into their names.
    model = re.sub(r"\((R|TM)\)| Processor| CPU| @.*", "", str(environment.get("cpu", "")))
    system = re.sub(r" GNU/Linux| \(.*\)", "", str(environment.get("os", "")))
    machine = " ".join(part for part in (f"{cpus} CPUs" if cpus else "", model) if part)
    done = f"{analysis.design.blocks} blocks, {analysis.trials} trials" if analysis.trials else ""
    return " · ".join(part for part in (machine, system, done, when) if part)


def _text(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    *,
    anchor: str = "start",
    weight: int = 400,
    family: str = "",
) -> str:
    font = f' font-family="{family}"' if family else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{_colour(colour)}" text-anchor="{anchor}"'
        f' font-weight="{weight}"{font}>{escape(printable(mask(text)))}</text>'
    )


def _colour(token: str) -> str:
    return TOKENS[token][0]


def _width(text: str, size: float) -> float:
    """About how wide a text is, px, in a wide sans serif: a reader's may be narrower."""
    return size * sum(0.36 if letter in _NARROW else 0.76 if letter.isupper() else 0.62 for letter in text)


def _wrapped(text: str, size: float, room: float) -> list[str]:
    lines: list[str] = []
    for word in re.split(r" +", text):
        if lines and _width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [_shortened(line, size, room) for line in lines]


def _shortened(text: str, size: float, room: float) -> str:
    """The text, cut to its room with an ellipsis."""
    if _width(text, size) <= room:
        return text
    while text and _width(f"{text}…", size) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"
