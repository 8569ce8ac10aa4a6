"""A cache that is empty at first: whoever first needs a key loads it, under the cache's lock or beside others."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    keys = rng.randint(2, 8)
    load = parts.work(rng, flavour, 8, 30, cpu=0)
    locked = rng.random() < 0.6
    look = lines(f"""
        if number % {keys} not in cache:
            if run.keeps("load"):
                with trace.span("load"):
                    {load.line}
            cache[number % {keys}] = number
        """)
    if locked:
        step = (
            'before = run.clock()\nwith cache_lock:\n    run.lost("cache_lock", before)\n'
            + parts.indented(look)
        )
    else:
        step = look
    return Part(
        setup="cache = {}" + ("\ncache_lock = threading.Lock()" if locked else ""),
        step=step,
        changes=(parts.remove("load"),),
        culprits=(parts.planted("cache_lock", "*load*"),) if locked else (parts.Culprit("", ("*load*",)),),
        alone_ms=load.ms * 0.5,
        serial_ms=3.0,
    )
