"""A job that looks every few ms whether a worker has done its piece."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([1, 1, 2])
    piece = parts.work(rng, flavour, 2, 7)
    pause = parts.milliseconds(rng, 2, 100) if rng.random() < 0.3 else parts.milliseconds(rng, 2, 15)
    return Part(
        setup=lines(f"""
            requests = queue.Queue()
            ready = set()

            def convert():
                while (number := requests.get()) is not None:
                    with trace.span("convert"):
                        {piece.line}
                    ready.add(number)

            converters = [threading.Thread(target=convert) for _ in range(run.workers("requests", {count}))]
            for each in converters:
                each.start()
            """),
        step=lines(f"""
            before = run.clock()
            requests.put(number)
            while number not in ready:
                time.sleep({pause / 1000:.4f})
            run.lost("requests", before, own={piece.seconds})
            """),
        close="for each in converters:\n    requests.put(None)\nfor each in converters:\n    each.join()",
        changes=(parts.workers("requests", count, count * 2),),
        culprits=(parts.planted("requests", "*sleep*", "*convert*"),),
        alone_ms=piece.ms + pause / 2,
        serial_ms=piece.ms / count,
    )
