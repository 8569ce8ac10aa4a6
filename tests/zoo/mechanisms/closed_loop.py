"""A few clients that each send one job after the other and think between them."""

from random import Random

from zoo import arrivals, parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(3, 10)
    think = parts.milliseconds(rng, 2, 20)

    def frame(head: str, body: str) -> str:
        return arrivals.defined(head, body, flavour) + lines(f"""

            def client(first):
                for number in range(first, len(run.sizes), {count}):
                    order(number, run.sizes[number])
                    time.sleep({think / 1000:.4f})

            clients = [threading.Thread(target=client, args=(first,)) for first in range({count})]
            for each in clients:
                each.start()
            for each in clients:
                each.join()
            """)

    return Part(frame=frame, alone_ms=think, at_once=count)
