"""Two locks in a row, held for nearly as long: mending one leaves the other."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    first = parts.work(rng, flavour, 3, 8, 'run.hold("index")')
    second = round(first.ms * rng.uniform(0.85, 1.15), 1)
    return Part(
        setup="index = threading.Lock()\njournal = threading.Lock()",
        step=lines(f"""
            before = run.clock()
            with index:
                run.lost("index", before)
                {first.line}
            before = run.clock()
            with journal:
                run.lost("journal", before)
                time.sleep({second / 1000:.4f} * run.hold("journal"))
            """),
        changes=(parts.hold("index", 0.5), parts.hold("journal", 0.5)),
        culprits=(parts.planted("index"), parts.planted("journal")),
        alone_ms=first.ms + second,
        serial_ms=max(first.ms, second),
    )
