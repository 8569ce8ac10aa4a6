"""Workers with a queue each, among which jobs are dealt by their number."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    count = rng.randint(2, 4)
    piece = parts.work(rng, flavour, 4, 12, "weight", cpu=0)
    deal, used = rng.choice([(f"number % {count}", count), (f"number * number % {count}", 2)])
    return Part(
        top=lines(f"""
            class Resizer(threading.Thread):
                def __init__(self):
                    super().__init__()
                    self.inbox = queue.Queue()

                def run(self):
                    while (entry := self.inbox.get()) is not None:
                        weight, done = entry
                        with trace.span("resize"):
                            {piece.line}
                        done.set()
            """),
        setup=lines(f"""
            resizers = [Resizer() for _ in range({count})]
            for each in resizers:
                if run.one_queue("Resizer.inbox"):
                    each.inbox = resizers[0].inbox
                each.start()
            """),
        step=lines(f"""
            before = run.clock()
            done = threading.Event()
            resizers[{deal}].inbox.put((size, done))
            done.wait()
            run.lost("inbox", before, own={piece.seconds.replace("weight", "size")})
            """),
        close=lines("""
            for each in resizers:
                each.inbox.put(None)
            for each in resizers:
                each.join()
            """),
        changes=(parts.global_queue("Resizer.inbox"),),
        culprits=(parts.planted("inbox", "*resize*"),),
        sizes=(0.5, 1.0, 2.0) if rng.random() < 0.6 else (),
        alone_ms=piece.ms,
        serial_ms=piece.ms * 1.2 / used,
    )
