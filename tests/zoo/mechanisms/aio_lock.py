"""A lock of asyncio."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

ABOUT = "an asyncio.Lock that each job holds once"
FLAVOURS = ("asyncio",)
FRONT = False


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
