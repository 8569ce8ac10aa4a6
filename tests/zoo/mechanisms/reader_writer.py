"""A lock for many readers or one writer, made of a condition."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    read = parts.work(rng, flavour, 1, 5)
    write = parts.work(rng, flavour, 4, 12, cpu=0)
    every = rng.randint(2, 5)
    return Part(
        setup=lines("""
            changed = threading.Condition()
            using = {"readers": 0, "writer": False}
            """),
        step=lines(f"""
            before = run.clock()
            writes = number % {every} == 0
            with changed:
                while using["writer"] or (writes and using["readers"]):
                    changed.wait()
                using["writer"] = writes
                using["readers"] += not writes
            run.lost("changed", before)
            if writes and run.keeps("rewrite"):
                with trace.span("rewrite"):
                    {write.line}
            elif not writes:
                {read.line}
            with changed:
                if writes:
                    using["writer"] = False
                else:
                    using["readers"] -= 1
                changed.notify_all()
            """),
        changes=(parts.remove("rewrite"),),
        culprits=(parts.planted("changed", "*rewrite*"),),
        alone_ms=read.ms + write.ms / every,
        serial_ms=(write.ms + read.ms) / every,
    )
