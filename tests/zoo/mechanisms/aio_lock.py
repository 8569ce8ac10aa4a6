"""An asyncio.Lock that each job holds once."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("asyncio",)


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 2, 10, 'run.hold("basket")', *parts.sized(rng))
    return Part(
        setup="basket = asyncio.Lock()",
        step=lines(f"""
            before = run.clock()
            async with basket:
                run.lost("basket", before)
                {held.line}
            """),
        changes=(parts.hold("basket", rng.choice([0.5, 0.25])),),
        culprits=(parts.planted("basket"),),
        alone_ms=held.ms,
        serial_ms=held.ms,
    )
