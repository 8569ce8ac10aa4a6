"""A coroutine that calls something which blocks the event loop for ms."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("asyncio",)


def draw(rng: Random, flavour: str) -> Part:
    took = parts.milliseconds(rng, 1, 8)
    call = rng.choice(["time.sleep", "burn"])
    return Part(
        step=lines(f"""
            if run.keeps("read config"):
                with trace.span("read config"):
                    {call}({took / 1000:.4f})
            """),
        changes=(parts.remove("read config"),),
        culprits=(parts.Culprit("", ("*read config*", "*loop*", "*sleep*")),),
        alone_ms=took,
        serial_ms=took,
    )
