"""A lock waited for only so long: whoever has waited in vain does something slower instead."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 3, 8, 'run.hold("quote")')
    patience = round(held.ms * rng.uniform(2, 6), 1)
    fallback = parts.work(rng, flavour, 5, 25, cpu=0)
    return Part(
        setup="quote = threading.Lock()",
        step=lines(f"""
            before = run.clock()
            entered = quote.acquire(timeout={patience / 1000:.4f})
            run.lost("quote", before)
            if entered:
                try:
                    {held.line}
                finally:
                    quote.release()
            else:
                with trace.span("fallback"):
                    {fallback.line}
            """),
        changes=(parts.hold("quote", 0.5), parts.hold("quote", 0.25)),
        culprits=(parts.planted("quote", "*fallback*"),),
        alone_ms=held.ms,
        serial_ms=held.ms * 0.7,
    )
