"""A remote call made once for each row, which could take many rows."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    fixed = parts.milliseconds(rng, 0.8, 3)
    each = parts.milliseconds(rng, 0.1, 0.6)
    locked = rng.random() < 0.4
    rows = 4 if locked else rng.choice([4, 8, 12])
    call = lines(f"""
        def insert(rows):
            with trace.span("insert", kind="remote"):
                time.sleep({fixed / 1000:.4f} + {each / 1000:.4f} * len(rows))
        """)
    loop = lines("""
        for first in range(0, len(rows), step):
            insert(rows[first:first + step])
        """)
    return Part(
        setup=("table = threading.Lock()\n\n" if locked else "") + call,
        step=f'rows = list(range({rows}))\nstep = run.batch("insert")\n'
        + ("with table:\n" + parts.indented(loop) if locked else loop),
        changes=(parts.coalesce("insert", rng.choice([4, 8])),),
        culprits=(parts.Culprit("", ("*insert*", *(["*table*"] if locked else []))),),
        alone_ms=(fixed + each) * rows,
        serial_ms=(fixed + each) * rows if locked else 0.0,
    )
