"""Workers that take the most urgent piece first; the job waits for its piece."""

from random import Random

from zoo import queued
from zoo.mechanisms import THREADED
from zoo.parts import Part

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    return queued.part(
        rng,
        flavour,
        "urgent",
        "PriorityQueue",
        "(number * 7 % 5, number, size, done)",
        "(9, 1000 + last, 1, None)",
        "ship",
    )
