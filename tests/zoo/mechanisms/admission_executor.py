"""A ThreadPoolExecutor of a few threads runs the jobs."""

from random import Random

from zoo import arrivals, parts
from zoo.parts import Part, lines

FLAVOURS = ("threads",)
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 8)

    def frame(head: str, body: str) -> str:
        return arrivals.defined(head, body, flavour) + lines("""

            for number, size in enumerate(run.sizes):
                desk.submit(order, number, size)
            desk.shutdown()
            """)

    return Part(
        imports=("from concurrent.futures import ThreadPoolExecutor",),
        setup=f'desk = ThreadPoolExecutor(run.workers("desk", {count}))',
        frame=frame,
        changes=(parts.workers("desk", count, count * 2),),
        at_once=count,
    )
