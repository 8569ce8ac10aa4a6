"""A span in every job that could be left out, before whatever the others wait for."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    audit = parts.work(rng, flavour, 2, 15, *parts.sized(rng))
    return Part(
        step=lines(f"""
            if run.keeps("audit"):
                with trace.span("audit"):
                    {audit.line}
            """),
        changes=(parts.remove("audit"),),
        culprits=(parts.Culprit("", ("*audit*", "*GIL*")),),
        alone_ms=audit.ms,
    )
