"""A lock that is tried again after a sleep until it is free."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED
UNSUPPORTED = "who of those that sleep and try again finds the lock free is chance, and small things decide"


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 2, 7, 'run.hold("printer")')
    pause = parts.milliseconds(rng, 2, 12)
    return Part(
        setup="printer = threading.Lock()",
        step=lines(f"""
            before = run.clock()
            while not printer.acquire(blocking=False):
                time.sleep({pause / 1000:.4f})
            run.lost("printer", before)
            {held.line}
            printer.release()
            """),
        changes=(parts.hold("printer", 0.5),),
        culprits=(parts.planted("printer", "*sleep*"),),
        alone_ms=held.ms,
        serial_ms=held.ms * 1.3,
    )
