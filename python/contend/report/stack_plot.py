"""Off-CPU time as an icicle: programs on top, below each the calls it blocked in, as wide as the time was long.

The page zooms by the parameters `x0` and `x1`, the visible seconds, as the timelines do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from contend.report.plotkit import Plot, Spec, chart, marks, quantity
from contend.report.theme import var
from contend.sample.stacks import Stack, Stacks, longest
from contend.units import format_duration

ROW = 20  # pixels
FRAMES = 1500  # drawn at most: what took longest
LEAST = 0.0005  # of all time: less is half a pixel, and would only make the picture deep
DEPTH = 60  # calls below each other at most
PROGRAMS = 20  # the page's list to choose from
TABLE = 25
LEAST_TEXT = 34  # pixels: below it no part of a name can be read
KINDS = {"program": var("grid"), "its code and libraries": var("h2"), "kernel": var("f2")}


@dataclass(slots=True)
class _Frame:
    """A call, and what it called."""

    kind: int
    seconds: float = 0.0
    called: dict[str, _Frame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Box:
    """A call as drawn: from `start` to `end` seconds, `depth` rows below the top."""

    start: float
    end: float
    depth: int
    kind: int
    name: str


def boxes(stacks: Sequence[Stack]) -> list[Box]:
    """At most FRAMES boxes, none smaller than LEAST; the largest first on every level, each inside its caller's."""
    root = _Frame(0)
    for stack in stacks:
        root.seconds += stack.off_cpu_s
        at = root
        for depth, name in enumerate((stack.subject, *stack.calls)[: DEPTH + 1]):
            kind = 0 if depth == 0 else 2 if name.endswith("_[k]") else 1
            at = at.called.setdefault(name, _Frame(kind))
            at.seconds += stack.off_cpu_s
    made = [box for box in _boxes(root, 0.0, 0) if box.end - box.start > LEAST * root.seconds]
    # A caller is never shorter than what it called, so cutting the shortest leaves no gap above anything.
    made.sort(key=lambda box: (box.start - box.end, box.depth))
    return sorted(made[:FRAMES], key=lambda box: (box.depth, box.start))


def _boxes(frame: _Frame, start: float, depth: int) -> Iterator[Box]:
    for name, called in sorted(frame.called.items(), key=lambda item: (-item[1].seconds, item[0])):
        yield Box(start, start + called.seconds, depth, called.kind, name)
        yield from _boxes(called, start, depth + 1)
        start += called.seconds


def stack_plot(stacks: Stacks) -> Plot | None:
    """The figure; None without stacks."""
    drawn = boxes(stacks.stacks)
    if not drawn:
        return None
    end = max(box.end for box in drawn)
    rows = max(box.depth for box in drawn) + 1
    values = [
        {"a": round(b.start, 6), "b": round(b.end, 6), "d": b.depth, "k": b.kind, "n": _name(b.name)}
        for b in drawn
    ]
    spec = chart(rows * ROW, _layers(rows), values)
    spec["params"] = [{"name": "x0", "value": 0}, {"name": "x1", "value": end}]
    width = "(datum.right-datum.left)/(x1-x0)*width"
    spec["transform"] = [
        {"calculate": "max(datum.a,x0)", "as": "left"},
        {"calculate": "min(datum.b,x1)", "as": "right"},
        {"filter": "datum.right>datum.left"},
        {"calculate": "datum.d+1", "as": "e"},
        {"calculate": width, "as": "w"},
        {"calculate": f"datum.n+': '+format(datum.b-datum.a,'.3~s')+'s, '+format((datum.b-datum.a)/{end!r},'.1%')",
         "as": "say"},
    ]  # fmt: skip
    whose = "of the command's processes" if stacks.of_command else "of all tasks"
    caption = (
        f"Time {whose} between blocking and running again, by where they blocked: each call below the one that made "
        "it, as wide as the time. Click a call to see it as wide as the page, again to go back. Sleeping on purpose "
        "counts as waiting for a lock, a disk or a pipe does."
    )
    caption += f" Calls of less than {100 * LEAST:g} % are left out here"
    caption += f", and all but the {FRAMES} longest" if len(drawn) == FRAMES else ""
    caption += "; contend export --to folded has them."
    table = tuple(
        (stack.subject, format_duration(stack.off_cpu_s * 1e9), f"{stack.count:,}", " ← ".join(reversed(stack.calls)))
        for stack in longest(stacks.stacks, TABLE)
    )  # fmt: skip
    headers = ("program", "off the CPU", "times", "where, innermost first")
    return Plot(
        "stacks-off-cpu", "stacks", "Off-CPU time by call", caption, spec, dict(KINDS), headers, table
    )


def programs(stacks: Stacks) -> list[tuple[str, float, float]]:
    """Name, start and end of the widest programs: an entrance for those who cannot click on a box."""
    return [(b.name, b.start, b.end) for b in boxes(stacks.stacks) if b.depth == 0][:PROGRAMS]


def _name(frame: str) -> str:
    """Its colour says that it is the kernel's."""
    return frame.removesuffix("_[k]")


def _layers(rows: int) -> list[Spec]:
    x = quantity(
        "left",
        "seconds off a CPU, added up over tasks",
        {"tickCount": 6, "grid": False, "format": ",.10~g"},
        nice=False,
        zero=False,
        domainMin={"expr": "x0"},
        domainMax={"expr": "x1"},
    )
    y: Spec = {
        "field": "d",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, rows], "reverse": True, "nice": False, "zero": False},
    }
    say: Spec = {"field": "say"}
    box = marks(
        "rect",
        {"clip": True, "stroke": var("page"), "strokeWidth": 1, "cursor": "pointer"},
        x=x,
        x2="right",
        y=y,
        y2="e",
        color={
            "field": "k",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": list(range(len(KINDS))), "range": list(KINDS.values())},
        },
        tooltip=say,
    )
    text = marks(
        "text",
        {
            "align": "left",
            "baseline": "middle",
            "dx": 4,
            "dy": ROW / 2,
            "fontSize": 12,
            "color": var("ink"),
            "limit": {"expr": "max(1,datum.w-8)"},
            "cursor": "pointer",
        },
        where=f"datum.w>{LEAST_TEXT}",
        x=x,
        y=y,
        text="n",
        tooltip=say,
    )
    return [box, text]
