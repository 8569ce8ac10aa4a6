"""One thread that commits all that has come since its last commit."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    fixed = parts.work(rng, flavour, 5, 15, cpu=0)
    each = parts.milliseconds(rng, 0.2, 1.5)
    return Part(
        setup=lines(f"""
            pending = queue.Queue()

            def commit():
                last = False
                while not last:
                    batch = [pending.get()]
                    while not pending.empty():
                        batch.append(pending.get())
                    last = None in batch
                    if run.keeps("sync"):
                        with trace.span("sync"):
                            {fixed.line}
                    with trace.span("append"):
                        time.sleep({each / 1000:.4f} * len(batch))
                    for committed in batch:
                        if committed:
                            committed.set()

            committer = threading.Thread(target=commit)
            committer.start()
            """),
        step=lines(f"""
            before = run.clock()
            committed = threading.Event()
            pending.put(committed)
            committed.wait()
            run.lost("pending", before, own={fixed.seconds} + {each / 1000:.4f})
            """),
        close="pending.put(None)\ncommitter.join()",
        changes=(parts.remove("sync"),),
        culprits=(parts.planted("pending", "*sync*", "*append*"),),
        alone_ms=fixed.ms + each * 3,
        serial_ms=each * 1.2,
    )
