"""A callback that computes in the event loop every so often, whatever the jobs do."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("asyncio",)


def draw(rng: Random, flavour: str) -> Part:
    took = parts.milliseconds(rng, 4, 15)
    pause = parts.milliseconds(rng, 4, 25)
    return Part(
        setup=lines(f"""
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()

            def flush():
                if run.keeps("flush"):
                    with trace.span("flush"):
                        burn({took / 1000:.4f})
                if not ended.is_set():
                    loop.call_later({pause / 1000:.4f}, flush)

            loop.call_soon(flush)
            """),
        close="ended.set()",
        changes=(parts.remove("flush"),),
        culprits=(parts.Culprit("", ("*flush*", "*loop*")),),
        alone_ms=took,
        serial_ms=1.0,
    )
