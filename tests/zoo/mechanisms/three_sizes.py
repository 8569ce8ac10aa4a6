"""Jobs of three sizes, which hold a lock for as long as their size says."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 2, 5, "size", 'run.hold("press")')
    after = parts.work(rng, flavour, 2, 6, "size", cpu=0)
    return Part(
        setup="press = threading.Lock()",
        step=lines(f"""
            before = run.clock()
            with press:
                run.lost("press", before)
                {held.line}
            {after.line}
            """),
        changes=(parts.hold("press", 0.5),),
        culprits=(parts.planted("press"),),
        sizes=(0.4, 1.0, 3.0),
        alone_ms=(held.ms + after.ms) * 1.5,
        serial_ms=held.ms * 1.5,
    )
