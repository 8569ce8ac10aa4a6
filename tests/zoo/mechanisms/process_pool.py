"""A ProcessPoolExecutor of one or two processes that compute pieces of the jobs."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("threads",)
UNSUPPORTED = (
    "processes that compute for half of the storm: with the edit they would have the processors at "
    "other times"
)


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([1, 1, 2])
    took = parts.milliseconds(rng, 3, 8)
    return Part(
        imports=("from concurrent.futures import ProcessPoolExecutor",),
        setup=lines(f"""
            cores = ProcessPoolExecutor(run.workers("cores", {count}))
            list(cores.map(burn, [0.001] * 4))
            """),
        step=lines(f"""
            before = run.clock()
            if run.keeps("simulate"):
                with trace.span("simulate"):
                    cores.submit(burn, {took / 1000:.4f}).result()
            run.lost("cores", before, own={took / 1000:.4f})
            """),
        close="cores.shutdown()",
        changes=(parts.workers("cores", count, 3 - count), parts.remove("simulate")),
        culprits=(parts.planted("cores", "*simulate*", "*burn*", "*cpu*"),),
        alone_ms=took + 1,
        serial_ms=(took + 1) / count,
    )
