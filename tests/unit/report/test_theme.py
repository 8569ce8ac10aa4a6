"""Colours that mean different things can be told apart, also without cones of one kind."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from coloraide.everything import ColorAll

from contend.report.theme import SERIES, TOKENS

VISIONS = ("", "deutan", "protan", "tritan")
SERIES_TOKENS = ("alone", *(f"c{number}" for number in range(1, SERIES + 1)))
PAIRS = [
    *itertools.combinations(SERIES_TOKENS, 2),
    ("good", "bad"), ("good", "warn"),
    ("f1", "h1"), ("f2", "h2"), ("f1", "h0"), ("f1", "f2"),
]  # fmt: skip
# Steps of slower and slower stand in their order, and each cell has its figure.
STEPS = [(f"h{number}", f"h{number + 1}") for number in range(5)]
APART, TOLD, STEP = 11.0, 6.0, 2.5
"""Distances in CAM16-UCS (Li et al. 2017), where 1 is about the least that is seen side by side: with usual vision,
with all cones of one kind lacking (Machado, Oliveira and Fernandes 2009), and of steps of one scale."""


@cache
def seen(colour: str, vision: str) -> ColorAll:
    """A colour, #rrggbb, as somebody sees it."""
    shown = ColorAll(colour)
    return shown.filter(vision, method="machado").clip() if vision else shown


def distance(one: str, other: str, vision: str) -> float:
    return seen(one, vision).delta_e(seen(other, vision), method="cam16")


def alike(pairs: list[tuple[str, str]], theme: int, vision: str, least: float) -> dict[str, float]:
    """Pairs of tokens that are nearer to each other than `least`."""
    found = {
        f"{one} {other}": distance(TOKENS[one][theme], TOKENS[other][theme], vision) for one, other in pairs
    }
    return {pair: round(value, 1) for pair, value in found.items() if value < least}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart(theme: int, vision: str) -> None:
    assert alike(PAIRS, theme, vision, TOLD if vision else APART) == {}
    assert alike(STEPS, theme, vision, STEP) == {}


def test_the_check_finds_colours_that_are_alike() -> None:
    """Blue and purple of one lightness, which nobody without cones for red tells apart."""
    assert distance("#2563eb", "#9333ea", "") > APART
    assert distance("#2563eb", "#9333ea", "protan") < TOLD
