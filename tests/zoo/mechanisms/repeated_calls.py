"""A call made again and again, once for each row."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

ABOUT = "a remote call made once for each row, which could take many rows"
FLAVOURS = THREADED
FRONT = False


def draw(rng: Random, flavour: str) -> Part:
    fixed = parts.milliseconds(rng, 0.8, 3)
    each = parts.milliseconds(rng, 0.1, 0.6)
    rows = rng.choice([4, 8, 12])
    locked = rng.random() < 0.4
    wait = lines(f"""
        with trace.span("insert", kind="remote"):
            time.sleep({fixed / 1000:.4f} + {each / 1000:.4f} * len(rows))
        """)
    serial = "with table:\n" + parts.indented(wait)
    body = serial if locked else wait
    setup = "def insert(rows):\n" + parts.indented(body)
    if locked:
        setup = "table = threading.Lock()\n\n" + setup
    return Part(
        setup=setup,
        step=lines(f"""
            rows = list(range({rows}))
            step = run.batch("insert")
            for first in range(0, len(rows), step):
                insert(rows[first:first + step])
            """),
        changes=(parts.coalesce("insert", rng.choice([4, 8])),),
        culprits=(parts.Culprit("", ("*insert*", *(["*table*"] if locked else []))),),
        alone_ms=(fixed + each) * rows,
        serial_ms=(fixed + each) * rows if locked else 0.0,
    )
