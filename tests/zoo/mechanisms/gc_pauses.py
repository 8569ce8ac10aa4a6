"""A large heap that some jobs collect, while everybody stands still."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = (*THREADED, "asyncio")


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(10, 50) * 1000
    every = rng.randint(2, 4)
    return Part(
        imports=("import gc",),
        setup=f"heap = [[number] for number in range({count})]",
        step=lines(f"""
            if number % {every} == 0 and run.keeps("compact"):
                with trace.span("compact"):
                    gc.collect()
            """),
        close="heap.clear()",
        changes=(parts.remove("compact"),),
        culprits=(parts.Culprit("", ("*gc*", "*garbage*", "*compact*", "*GIL*")),),
        alone_ms=count / 10000 / every + 3,
        serial_ms=count / 10000 / every,
    )
