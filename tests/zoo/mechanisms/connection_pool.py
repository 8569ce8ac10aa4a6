"""A pool of two or three connections, kept in a queue."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([2, 2, 3])
    query = parts.work(rng, flavour, 4, 15, *parts.sized(rng), cpu=0)
    kind = rng.choice(["Queue", "LifoQueue"])
    return Part(
        setup=lines(f"""
            connections = queue.{kind}()
            for number in range(run.size("connections", {count})):
                connections.put(f"connection {{number}}")
            """),
        step=lines(f"""
            before = run.clock()
            connection = connections.get()
            run.lost("connections", before)
            try:
                with trace.span("query"):
                    {query.line}
            finally:
                connections.put(connection)
            """),
        changes=(parts.size("connections", count, count * 2),),
        culprits=(parts.planted("connections"),),
        alone_ms=query.ms,
        serial_ms=query.ms / count,
    )
