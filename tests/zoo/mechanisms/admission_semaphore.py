"""A semaphore outside the jobs lets only so many of them begin."""

from random import Random

from zoo import arrivals, parts
from zoo.mechanisms import THREADED
from zoo.parts import Part

FLAVOURS = THREADED
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 8)
    start = arrivals.at_once(flavour)

    def frame(head: str, body: str) -> str:
        job = arrivals.defined(head, body, flavour).replace("def order(", "def do_order(")
        text = start("with doors:", "do_order(number, size)")
        return f"{job}\n{text}"

    return Part(
        setup=f'doors = threading.Semaphore(run.size("doors", {count}))',
        frame=frame,
        changes=(parts.size("doors", count, count * 2), parts.size("doors", count, max(1, count // 2))),
        at_once=count,
    )
