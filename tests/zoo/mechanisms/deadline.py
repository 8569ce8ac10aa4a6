"""A lock, and a last piece that a job leaves out when it is late."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 2, 6, 'run.hold("ledger")')
    rest = parts.work(rng, flavour, 10, 30, cpu=0)
    deadline = round(held.ms * rng.uniform(4, 15), 1)
    return Part(
        setup="ledger = threading.Lock()",
        step=lines(f"""
            before = run.clock()
            with ledger:
                run.lost("ledger", before)
                {held.line}
            if run.clock() - before < {deadline / 1000:.4f} * 1e9:
                with trace.span("recommend"):
                    {rest.line}
            """),
        changes=(parts.hold("ledger", 0.5),),
        culprits=(parts.planted("ledger"),),
        alone_ms=held.ms + rest.ms,
        serial_ms=held.ms,
    )
