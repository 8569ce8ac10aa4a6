"""An asyncio.Semaphore that lets two to four calls go out together."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("asyncio",)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 4)
    call = parts.work(rng, flavour, 5, 20, 'run.hold("lines")', cpu=0)
    return Part(
        setup=f'lines = asyncio.Semaphore(run.size("lines", {count}))',
        step=lines(f"""
            before = run.clock()
            async with lines:
                run.lost("lines", before)
                with trace.span("call"):
                    {call.line}
            """),
        changes=(parts.hold("lines", 0.5), parts.size("lines", count, count * 2)),
        culprits=(parts.planted("lines", "*call*"),),
        alone_ms=call.ms,
        serial_ms=call.ms / count,
    )
