"""Jobs that compute in threads or greenlets, one at a time for the interpreter's lock."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED
UNSUPPORTED = "threads of one interpreter that compute for half of the storm"


def draw(rng: Random, flavour: str) -> Part:
    took = parts.milliseconds(rng, 3, 12)
    return Part(
        step=lines(f"""
            if run.keeps("render"):
                with trace.span("render"):
                    burn({took / 1000:.4f})
            """),
        changes=(parts.remove("render"),),
        culprits=(parts.Culprit("", ("*GIL*", "*render*", "*cpu*", "*hub*", "*loop*")),),
        alone_ms=took,
        serial_ms=took,
    )
