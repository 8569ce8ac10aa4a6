"""The graph of waits as SVG: jobs, what they waited for, and what its holders did, from left to right, as wide as the time.

Drawn twice, for a wide and a narrow page; the stylesheet shows one of them. Colours are CSS variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from contend.contention.hunting.charges import Charges
from contend.report.hunt_plots import short_path
from contend.report.theme import var
from contend.text.safe import safe
from contend.units import format_duration

WIDE, NARROW = 880, 358  # pixels
SHOWN = 7  # of each column; the rest is one node
LEAST = 0.01  # of all waits: a thinner edge says nothing
_BAR, _GAP, _LINE = 10, 14, 14
_HIGHEST = 260  # of the column that has most
_COLOURS = {"jobs": "c1", "lock": "c2", "pool": "c4", "remote": "c5", "span": "c3", "gil": "c6", "cpu": "c6"}
_WORDS = {
    "lock": "lock", "pool": "worker of", "remote": "", "span": "in", "waiting": "waits for", "track": "thread",
    "nobody": "handed over", "gil": "the GIL", "cpu": "a CPU", "reply": "answer of", "queue": "queue",
    "condition": "condition", "suspended": "suspended", "io": "I/O:", "blocked": "blocked in",
}  # fmt: skip
_ONLY = ("gil", "cpu")
# Of a job's time that is no wait for somebody else.
_NO_WAIT = ("running", "suspended", "sleep")


@dataclass(slots=True)
class Node:
    """A box: of column `column`, with what goes in and out of it (ns)."""

    key: tuple[str, str]
    column: int
    ns: int = 0
    y: float = 0.0
    used: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def label(self) -> str:
        kind, name = self.key
        if kind in _ONLY:  # the only one of its kind
            return _WORDS[kind]
        # The picture goes into a page as it is: what names of strangers hold is made safe here.
        return safe(f"{_WORDS.get(kind, kind)} {short_path(name)}".strip())


@dataclass(frozen=True, slots=True)
class Edge:
    """Waited time from one to another."""

    source: tuple[int, tuple[str, str]]
    target: tuple[int, tuple[str, str]]
    ns: int


def edges(charges: Charges) -> list[Edge]:
    """Edges from jobs to what they waited for, and from there to what its holders did. The smallest are put together."""
    waits = {key: ns for key, ns in charges.waited.items() if key[0] not in _NO_WAIT and ns > 0}
    total = max(sum(waits.values()), 1)
    shown = sorted(waits, key=lambda key: (-waits[key], key))[:SHOWN]
    shown = [key for key in shown if waits[key] >= LEAST * total]
    drawn = [Edge((0, ("jobs", "")), (1, key), waits[key]) for key in shown]
    rest = sum(waits.values()) - sum(waits[key] for key in shown)
    if shown and rest >= LEAST * total:
        drawn.append(Edge((0, ("jobs", "")), (1, ("other", "waits")), rest))
    second: dict[tuple[tuple[str, str], tuple[str, str]], int] = {}
    for key in shown:
        for did in charges.meanwhile.get(key[1], ()) if key[0] in ("lock", "gil") else ():
            if waits[key] * did.share >= LEAST * total:
                second[key, (did.doing, did.culprit)] = round(waits[key] * did.share)
    sums: dict[tuple[str, str], int] = {}
    for (_, key), ns in second.items():
        sums[key] = sums.get(key, 0) + ns
    kept = set(sorted(sums, key=lambda key: (-sums[key], key))[:SHOWN])
    for (source, key), ns in second.items():
        drawn.append(Edge((1, source), (2, key if key in kept else ("other", "spans")), ns))
    return drawn


def svg(charges: Charges, width: int) -> str:
    """The picture, `width` pixels wide; empty where nobody waited."""
    drawn = edges(charges)
    if not drawn:
        return ""
    nodes = _placed(drawn, width)
    height = max(node.y + _high(node, nodes, width) for node in nodes.values()) + 2
    body = [*_paths(drawn, nodes, width), *_boxes(nodes, width)]
    label = f"Jobs waited {format_duration(sum(e.ns for e in drawn if e.source[0] == 0))}; the table has every edge."
    return (
        f'<svg class="waits" viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}" role="img"'
        f' aria-label="{escape(label)}">{"".join(body)}</svg>'
    )


def _columns(nodes: dict[tuple[int, tuple[str, str]], Node]) -> int:
    return max(node.column for node in nodes.values()) + 1


def _placed(drawn: Sequence[Edge], width: int) -> dict[tuple[int, tuple[str, str]], Node]:
    nodes: dict[tuple[int, tuple[str, str]], Node] = {}
    ins: dict[tuple[int, tuple[str, str]], int] = {}
    outs: dict[tuple[int, tuple[str, str]], int] = {}
    for edge in drawn:
        for at in (edge.source, edge.target):
            nodes.setdefault(at, Node(at[1], at[0]))
        outs[edge.source] = outs.get(edge.source, 0) + edge.ns
        ins[edge.target] = ins.get(edge.target, 0) + edge.ns
    for at, node in nodes.items():
        node.ns = max(ins.get(at, 0), outs.get(at, 0))
    for column in range(_columns(nodes)):
        y = 2.0
        for node in sorted((n for n in nodes.values() if n.column == column), key=lambda n: (-n.ns, n.key)):
            node.y = y
            y += _high(node, nodes, width) + _GAP
    return nodes


def _scale(nodes: dict[tuple[int, tuple[str, str]], Node]) -> float:
    """Pixels of a ns."""
    sums = [sum(n.ns for n in nodes.values() if n.column == c) for c in range(_columns(nodes))]
    return _HIGHEST / max(*sums, 1)


def _lines(node: Node, nodes: dict[tuple[int, tuple[str, str]], Node], width: int) -> list[str]:
    """Its label, and the time on a line of its own; names are broken where they may be."""
    room = width / _columns(nodes) - _BAR - 12
    letters = max(8, int(room / 6.7))
    label = (
        node.label.replace(":", ":\u200b")
        .replace(".", ".\u200b")
        .replace("_", "_\u200b")
        .replace("/", "/\u200b")
    )
    lines = _wrapped(label, letters)
    return [*lines[:4], format_duration(node.ns)]


def _wrapped(label: str, letters: int) -> list[str]:
    """At spaces and at zero-width ones, else anywhere.

    >>> _wrapped("call\\u200b_of a", 6), _wrapped("abcdefgh", 3)
    (['call', '_of a'], ['abc', 'def', 'gh'])
    """
    lines = [""]
    for word in label.split(" "):
        for at, piece in enumerate(word.split("\u200b")):
            space = " " if at == 0 and lines[-1] else ""
            if len(lines[-1]) + len(space) + len(piece) <= letters:
                lines[-1] += space + piece
            else:
                lines += [piece[n : n + letters] for n in range(0, len(piece), letters)]
    return [line for line in lines if line]


def _high(node: Node, nodes: dict[tuple[int, tuple[str, str]], Node], width: int) -> float:
    return max(node.ns * _scale(nodes), _LINE * len(_lines(node, nodes, width)) + 2)


def _left(node: Node, nodes: dict[tuple[int, tuple[str, str]], Node], width: int) -> float:
    return node.column * width / _columns(nodes)


def _paths(
    drawn: Sequence[Edge], nodes: dict[tuple[int, tuple[str, str]], Node], width: int
) -> Iterator[str]:
    scale = _scale(nodes)
    for edge in sorted(drawn, key=lambda e: (nodes[e.source].y, nodes[e.target].y)):
        one, other = nodes[edge.source], nodes[edge.target]
        thick = max(1.0, edge.ns * scale)
        x0, x1 = _left(one, nodes, width) + _BAR, _left(other, nodes, width)
        y0, y1 = one.y + one.used[1] + thick / 2, other.y + other.used[0] + thick / 2
        one.used[1] += thick
        other.used[0] += thick
        middle = (x0 + x1) / 2
        name = escape(f"{one.label} → {other.label}: {format_duration(edge.ns)}")
        yield (
            f'<path d="M{x0:.1f} {y0:.1f}C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}" fill="none"'
            f' stroke="{_colour(other)}" stroke-opacity="0.28" stroke-width="{thick:.1f}"><title>{name}</title></path>'
        )


def _colour(node: Node) -> str:
    return var(_COLOURS.get(node.key[0], "alone"))


def _boxes(nodes: dict[tuple[int, tuple[str, str]], Node], width: int) -> Iterator[str]:
    scale = _scale(nodes)
    for node in nodes.values():
        x, high = _left(node, nodes, width), max(2.0, node.ns * scale)
        yield f'<rect x="{x:.1f}" y="{node.y:.1f}" width="{_BAR}" height="{high:.1f}" rx="2" fill="{_colour(node)}"/>'
        lines = _lines(node, nodes, width)
        for at, line in enumerate(lines):
            last = ' class="soft"' if at == len(lines) - 1 else ""
            y = node.y + 11 + at * _LINE
            yield f'<text x="{x + _BAR + 5:.1f}" y="{y:.1f}"{last}>{escape(line)}</text>'
