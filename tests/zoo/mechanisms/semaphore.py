"""A semaphore within the job that lets two to four of them in."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 4)
    held = parts.work(rng, flavour, 5, 20, 'run.hold("slots")', cpu=0)
    kind = rng.choice(["Semaphore", "BoundedSemaphore"])
    return Part(
        setup=f'slots = threading.{kind}(run.size("slots", {count}))',
        step=lines(f"""
            before = run.clock()
            with slots:
                run.lost("slots", before)
                {held.line}
            """),
        changes=(parts.size("slots", count, count * 2), parts.hold("slots", 0.5)),
        culprits=(parts.planted("slots"),),
        alone_ms=held.ms,
        serial_ms=held.ms / count,
    )
