"""One machine, whose next user is chosen under a condition."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    cut = parts.work(rng, flavour, 2, 8)
    clean = parts.work(rng, flavour, 1, 4, cpu=0)
    wake = rng.choice(["notify", "notify_all"])
    return Part(
        setup='turn = threading.Condition()\nmachine = {"busy": False}',
        step=lines(f"""
            before = run.clock()
            with turn:
                while machine["busy"]:
                    turn.wait()
                machine["busy"] = True
            run.lost("turn", before)
            with trace.span("cut"):
                {cut.line}
            if run.keeps("clean"):
                with trace.span("clean"):
                    {clean.line}
            with turn:
                machine["busy"] = False
                turn.{wake}()
            """),
        changes=(parts.remove("clean"),),
        culprits=(parts.planted("turn", "*cut*", "*clean*"),),
        alone_ms=cut.ms + clean.ms,
        serial_ms=cut.ms + clean.ms,
    )
