"""A ThreadPoolExecutor that jobs give a piece of their work to and wait for."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("threads",)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(1, 4)
    piece = parts.work(rng, flavour, 4, 15, cpu=0)
    return Part(
        imports=("from concurrent.futures import ThreadPoolExecutor",),
        setup=lines(f"""
            thumbnails = ThreadPoolExecutor(run.workers("thumbnails", {count}))

            def shrink(number):
                with trace.span("shrink"):
                    {piece.line}
            """),
        step=lines(f"""
            before = run.clock()
            thumbnails.submit(shrink, number).result()
            run.lost("thumbnails", before, own={piece.seconds})
            """),
        close="thumbnails.shutdown()",
        changes=(parts.workers("thumbnails", count, count * 2),),
        culprits=(parts.planted("thumbnails", "*shrink*"),),
        alone_ms=piece.ms,
        serial_ms=piece.ms / count,
    )
