"""Colours that mean different things can be told apart, also without cones of one kind."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from colorspacious import cspace_convert

from contend.report.theme import SERIES, TOKENS

VISIONS = ("", "deuteranomaly", "protanomaly", "tritanomaly")
SERIES_TOKENS = ("alone", *(f"c{number}" for number in range(1, SERIES + 1)))
PAIRS = [
    *itertools.combinations(SERIES_TOKENS, 2),
    ("good", "bad"), ("good", "warn"),
    ("f1", "h1"), ("f2", "h2"), ("f1", "h0"), ("f1", "f2"),
]  # fmt: skip
# Steps of slower and slower stand in their order, and each cell has its figure.
STEPS = [(f"h{number}", f"h{number + 1}") for number in range(5)]
APART, TOLD, STEP = 11.0, 6.0, 2.5
"""Distances in CAM02-UCS (Luo, Cui and Li 2006), where 1 is about the least that is seen side by side: with usual vision,
with all cones of one kind lacking (Machado, Oliveira and Fernandes 2009), and of steps of one scale."""


@cache
def seen(colour: str, vision: str) -> np.ndarray:
    """A colour, #rrggbb, as somebody sees it, in CAM02-UCS."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    shown = np.array([red, green, blue])
    if vision:
        lacking = {"name": "sRGB1+CVD", "cvd_type": vision, "severity": 100}
        shown = np.clip(cspace_convert(shown, lacking, "sRGB1"), 0, 1)
    return np.asarray(cspace_convert(shown, "sRGB1", "CAM02-UCS"))


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, vision) - seen(other, vision)))


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
    assert distance("#2563eb", "#9333ea", "protanomaly") < TOLD
