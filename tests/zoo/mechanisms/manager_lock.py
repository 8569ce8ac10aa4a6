"""A lock of multiprocessing's Manager, asked for through its process."""

from dataclasses import replace
from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("threads", "processes")


def draw(rng: Random, flavour: str) -> Part:
    held = parts.work(rng, flavour, 3, 10, 'run.hold("minutes")')
    note = parts.work(rng, flavour, 1, 5, 'run.hold("minutes")', cpu=0)
    return Part(
        setup="manager = multiprocessing.Manager()\nminutes = manager.Lock()",
        step=lines(f"""
            before = run.clock()
            with minutes:
                run.lost("minutes", before)
                {held.line}
                if run.keeps("note"):
                    with trace.span("note"):
                        {note.line}
            """),
        close="manager.shutdown()",
        changes=(parts.remove("note"), replace(parts.hold("minutes", 0.5), exists=False)),
        culprits=(parts.planted("minutes", "*note*", "*manager*", "*recv*", "*read*"),),
        alone_ms=held.ms + note.ms + 1,
        serial_ms=held.ms + note.ms + 1,
    )
