"""Workers that take the newest piece first; the job waits for its piece."""

from random import Random

from zoo import queued
from zoo.mechanisms import THREADED
from zoo.parts import Part

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    return queued.part(
        rng, flavour, "newest", "LifoQueue", "(number, size, done)", "(last, 1, None)", "index page"
    )
