"""Workers of a job's own process that take pieces of jobs from a queue: what several mechanisms have in common."""

from __future__ import annotations

from random import Random

from zoo import parts
from zoo.parts import Part, lines


def part(rng: Random, flavour: str, name: str, kind: str, entry: str, last: str, work: str) -> Part:
    """A queue of that class and name, workers behind it, and jobs that wait until their piece was done.

    entry: the expression for what a job puts, which ends with `done`. last: the entry
    that ends a worker. work: name of the span of a piece.
    """
    count = rng.choice([1, 2, 2, 3])
    piece = parts.work(rng, flavour, 3, 12, *parts.sized(rng))
    late = parts.work(rng, flavour, 1, 4, cpu=0)
    line = piece.line.replace("size", "weight")
    return Part(
        setup=lines(f"""
            {name} = queue.{kind}()

            def serve_{name}():
                while True:
                    *_, number, weight, done = {name}.get()
                    if done is None:
                        return
                    with trace.span("{work}"):
                        {line}
                    if run.keeps("tidy {name}"):
                        with trace.span("tidy {name}"):
                            {late.line}
                    done.set()

            {name}_crew = [threading.Thread(target=serve_{name}) for _ in range(run.workers("{name}", {count}))]
            for each in {name}_crew:
                each.start()
            """),
        step=lines(f"""
            before = run.clock()
            done = threading.Event()
            {name}.put({entry})
            done.wait()
            run.lost("{name}", before, own={piece.seconds} + {late.seconds})
            """),
        close=lines(f"""
            for last in range(len({name}_crew)):
                {name}.put({last})
            for each in {name}_crew:
                each.join()
            """),
        changes=(parts.workers(name, count, count * 2), parts.remove(f"tidy {name}")),
        culprits=(parts.planted(name, f"*{work}*", f"*tidy {name}*"),),
        alone_ms=piece.ms + late.ms,
        serial_ms=(piece.ms + late.ms) / count,
    )
