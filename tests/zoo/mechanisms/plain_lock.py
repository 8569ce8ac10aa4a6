"""A lock that each job holds once, now and then with a span in it that can go."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 2, 10, 'run.hold("stock")', *parts.sized(rng))
    factor = rng.choice([0.5, 0.5, 0.25])
    step = f"""
        before = run.clock()
        with stock:
            run.lost("stock", before)
            {held.line}
        """
    changes = [parts.hold("stock", factor)]
    spent = held.ms
    if rng.random() < 0.4:
        checked = parts.work(rng, flavour, 1, 5, 'run.hold("stock")')
        step += f"""    if run.keeps("check"):
                with trace.span("check"):
                    {checked.line}
        """
        changes.append(parts.remove("check"))
        spent += checked.ms
    return Part(
        setup="stock = threading.Lock()",
        step=lines(step),
        changes=tuple(changes),
        culprits=(parts.planted("stock"),),
        alone_ms=spent,
        serial_ms=spent,
    )
