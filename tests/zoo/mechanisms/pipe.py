"""A helper process behind a pipe: the lock of the pipe is held while its answer is waited for."""

from random import Random

from zoo import parts
from zoo.parts import Part, lines

FLAVOURS = ("threads",)


def draw(rng: Random, flavour: str) -> Part:
    answer = parts.work(rng, flavour, 2, 7)
    after = parts.work(rng, flavour, 1, 5, 'run.hold("talk")')
    return Part(
        setup=lines(f"""
            near, far = multiprocessing.Pipe()
            talk = threading.Lock()

            def help_out():
                while far.recv() is not None:
                    if run.keeps("look up"):
                        with trace.span("look up"):
                            {answer.line}
                    far.send("answer")

            helper = multiprocessing.Process(target=help_out)
            helper.start()
            """),
        step=lines(f"""
            before = run.clock()
            with talk:
                run.lost("talk", before)
                near.send(number)
                near.recv()
                {after.line}
            """),
        close="near.send(None)\nhelper.join()",
        changes=(parts.hold("talk", 0.5), parts.remove("look up")),
        culprits=(parts.planted("talk", "*look up*"),),
        alone_ms=answer.ms + after.ms,
        serial_ms=answer.ms + after.ms,
    )
