"""Nothing to wait for: jobs sleep and compute a little, and none minds the others."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = (*THREADED, "asyncio")


def draw(rng: Random, flavour: str) -> Part:
    fetch = parts.work(rng, flavour, 5, 30, *parts.sized(rng), cpu=0)
    stamp = parts.work(rng, flavour, 1, 8, cpu=0)
    return Part(
        step=lines(f"""
            with trace.span("fetch"):
                {fetch.line}
            if run.keeps("stamp"):
                with trace.span("stamp"):
                    {stamp.line}
            """),
        changes=(parts.remove("stamp"),),
        alone_ms=fetch.ms + stamp.ms,
        serial_ms=1.0,
    )
