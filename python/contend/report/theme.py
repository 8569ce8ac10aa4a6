"""Colours of plots and pages as CSS variables, so that a plot follows light, dark and print without being redrawn.

Text colours keep 4.5:1 and marks 3:1 against their background in both themes. Colours of series, of slower and faster, and
neighbours on the heat map can be told apart with any colour vision. Tests compute both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# name: (light, dark)
TOKENS: Mapping[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14171c"),
    "panel": ("#f5f6f8", "#1d2128"),
    "ink": ("#1b1f24", "#e8eaed"),
    "soft": ("#4d5561", "#b3bac5"),
    "line": ("#d5d9df", "#3a414c"),
    "grid": ("#e6e8ec", "#2a3039"),
    "link": ("#1d4ed8", "#93b8ff"),
    "bad": ("#b42318", "#ff9b8f"),
    "good": ("#00606b", "#7fe0ff"),
    "warn": ("#8a4b00", "#ffc26b"),
    "alone": ("#687080", "#98a1b0"),
    "control": ("#868d99", "#7d8694"),
    "c1": ("#2563eb", "#7aa7ff"),
    "c2": ("#c2570c", "#ff9d5c"),
    "c3": ("#559966", "#66ffcc"),
    "c4": ("#770066", "#aa22ee"),
    "c5": ("#005544", "#667700"),
    "c6": ("#aa77bb", "#ff1177"),
    "c7": ("#554400", "#ddff33"),
    "c8": ("#5500bb", "#ffccff"),
    # The heat map: h5 is slower than twice the baseline … h1 just slower, f1 and f2 faster, h0 no effect.
    "h0": ("#f5f6f8", "#1d2128"),
    "h1": ("#fdf0e1", "#33281b"),
    "h2": ("#fcdcbd", "#4d3416"),
    "h3": ("#fabf95", "#6b3f12"),
    "h4": ("#f79f79", "#834015"),
    "h5": ("#ee7a5c", "#b04436"),
    "f1": ("#cfe4f9", "#16304d"),
    "f2": ("#9cc5ee", "#1d4a78"),
}
SERIES = 8  # tokens c1 … c8


def var(token: str) -> str:
    """
    >>> var("ink")
    'var(--ink)'
    """
    return f"var(--{token})"


def series_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, in order; the baseline and its control are grey. After SERIES the colours repeat."""
    colours: dict[str, str] = {}
    for name in names:
        if name not in colours:
            grey = {"alone": "alone", "control": "control"}.get(name)
            number = sum(c not in (var("alone"), var("control")) for c in colours.values())
            colours[name] = var(grey or f"c{number % SERIES + 1}")
    return colours


def stylesheet() -> str:
    """The tokens as CSS: light, dark by preference, either by choice (`data-theme`), and light on paper."""
    light = "".join(f"--{k}:{v[0]};" for k, v in TOKENS.items())
    dark = "".join(f"--{k}:{v[1]};" for k, v in TOKENS.items())
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
        f'@media screen{{:root[data-theme="dark"]{{color-scheme:dark;{dark}}}'
        f':root[data-theme="light"]{{color-scheme:light;{light}}}}}\n'
    )


def resolve(text: str, *, dark: bool = False) -> str:
    """The text with every `var(--token)` replaced by its colour, for files that stand alone.

    >>> resolve('"var(--ink)"')
    '"#1b1f24"'
    """
    return re.sub(r"var\(--([a-z0-9]+)\)", lambda m: TOKENS[m[1]][int(dark)], text)
