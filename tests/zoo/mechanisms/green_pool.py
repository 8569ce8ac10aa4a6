"""A pool of a few greenlets (eventlet's GreenPool, gevent's Pool) runs the jobs."""

from random import Random

from zoo import arrivals, parts
from zoo.parts import Part, lines

FLAVOURS = ("eventlet", "gevent")
FRONT = True


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 8)
    kind, spawn, wait = ("eventlet.GreenPool", "spawn_n", "waitall")
    imports: tuple[str, ...] = ()
    if flavour == "gevent":
        kind, spawn, wait = ("Pool", "spawn", "join")
        imports = ("from gevent.pool import Pool",)

    def frame(head: str, body: str) -> str:
        return arrivals.defined(head, body, flavour) + lines(f"""

            for number, size in enumerate(run.sizes):
                greens.{spawn}(order, number, size)
            greens.{wait}()
            """)

    return Part(
        imports=imports,
        setup=f'greens = {kind}(run.workers("greens", {count}))',
        frame=frame,
        changes=(parts.unnamed_workers("greens", count, count * 2),),
        at_once=count,
    )
