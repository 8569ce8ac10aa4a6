"""Drawings of the hosts and subnets of a placement study, with the way that packets take on each route."""

from __future__ import annotations

from html import escape

from contend.report.theme import series_colours
from contend.studies.placement.result import Placements, Route
from contend.studies.placement.words import NAMESPACES, path

_W, _H = 320, 168
# Centres of what is drawn: (x, y).
_AT = {
    "client": (48, 46),
    "near": (112, 46),
    "a": (80, 94),
    "router": (80, 146),
    "b": (240, 94),
    "far": (240, 46),
}


def pictures(placements: Placements) -> list[tuple[Route, str, str]]:
    """Pictures of each way: itself, in words, and drawn. Colours are those of the plots. None of a cloud's: what its hosts
    have of switches and routers is not known here."""
    if placements.ends != NAMESPACES:
        return []
    colours = series_colours([route.short for route in placements.routes])
    return [
        (route, " → ".join(path(route)), _svg(route, colours[route.short])) for route in placements.routes
    ]


def _svg(route: Route, colour: str) -> str:
    label = f"{route.label}: {' to '.join(path(route))}"
    bridge = "switch" if route.encapsulation == "ovs" else "bridge"
    parts = [
        _box(8, 8, 144, 108, "host a"),
        _box(168, 8, 144, 108, "host b"),
        _link(route),
        *_wires(route),
        f'<polyline points="{_way(route)}" fill="none" stroke="{escape(colour)}" stroke-width="3"'
        ' stroke-linejoin="round" stroke-linecap="round"/>',
        _node("client", "client"),
        _node("far" if route.host == "different" else "near", "server"),
        _node("a", bridge, wide=54),
        _node("b", bridge, wide=54),
        _node("router", "router", wide=54),
    ]
    return f'<svg class="placement" viewBox="0 0 {_W} {_H}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _way(route: Route) -> str:
    """Corners of the way; there and back from the router lie side by side."""
    at = [_AT["client"]]
    a = _AT["a"]
    if route.subnet == "different":
        router = _AT["router"]
        at += [(a[0] - 5, a[1]), (router[0] - 5, router[1]), (router[0] + 5, router[1]), (a[0] + 5, a[1])]
    else:
        at.append(a)
    at += [_AT["b"], _AT["far"]] if route.host == "different" else [_AT["near"]]
    return " ".join(f"{x},{y}" for x, y in at)


def _box(x: int, y: int, width: int, height: int, name: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="var(--panel)" stroke="var(--line)"/>'
        f'<text x="{x + 7}" y="{y + 15}" fill="var(--soft)">{name}</text>'
    )


def _link(route: Route) -> str:
    name = {"none": "veth", "vxlan": "vxlan", "ovs": "veth"}[route.encapsulation]
    (ax, ay), (bx, by) = _AT["a"], _AT["b"]
    return (
        f'<line x1="{ax}" y1="{ay}" x2="{bx}" y2="{by}" stroke="var(--line)" stroke-width="1.5"/>'
        f'<text x="{(ax + bx) // 2}" y="{ay + 40}" text-anchor="middle" fill="var(--soft)">{name}</text>'
    )


def _wires(route: Route) -> list[str]:
    server = ("b", "far") if route.host == "different" else ("a", "near")
    return [
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="var(--line)" stroke-width="1.5"/>'
        for (x1, y1), (x2, y2) in ((_AT[a], _AT[b]) for a, b in (("client", "a"), server, ("a", "router")))
    ]


def _node(at: str, name: str, wide: int = 52) -> str:
    x, y = _AT[at]
    return (
        f'<rect x="{x - wide // 2}" y="{y - 11}" width="{wide}" height="22" rx="5" fill="var(--page)" stroke="var(--soft)"/>'
        f'<text x="{x}" y="{y + 4}" text-anchor="middle" fill="var(--ink)">{name}</text>'
    )
