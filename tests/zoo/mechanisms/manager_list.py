"""A list of multiprocessing's Manager, appended to by one call for each row."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("threads", "processes")


def draw(rng: Random, flavour: str) -> Part:
    rows = rng.randint(10, 30)
    return Part(
        setup="keeper = multiprocessing.Manager()\nentries = keeper.list()",
        step=lines(f"""
            before = run.clock()
            if run.keeps("register"):
                with trace.span("register"):
                    for row in range({rows}):
                        entries.append((number, row))
            run.lost("register", before)
            """),
        close="keeper.shutdown()",
        changes=(parts.remove("register"),),
        culprits=(
            parts.planted("register", "*manager*", "*recv*", "*read*", "*send*", "*write*", "*GIL*", "*cpu*"),
        ),
        alone_ms=rows * 0.1,
        serial_ms=rows * 0.1,
    )
