"""A multiprocessing.Lock that jobs in several processes hold once."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("processes",)


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 3, 10, 'run.hold("counter")', *parts.sized(rng))
    return Part(
        setup="counter = multiprocessing.Lock()",
        step=lines(f"""
            before = run.clock()
            with counter:
                run.lost("counter", before)
                {held.line}
            """),
        changes=(parts.hold("counter", 0.5),),
        culprits=(parts.planted("counter"),),
        alone_ms=held.ms,
        serial_ms=held.ms,
    )
