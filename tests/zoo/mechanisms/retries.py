"""A service that refuses calls while it is full; callers back off, for longer each time."""

from random import Random

from zoo import parts
from zoo.mechanisms import THREADED
from zoo.parts import Part, lines

FLAVOURS = THREADED


def draw(rng: Random, flavour: str) -> Part:
    count = rng.choice([1, 2, 2, 3])
    held = parts.work(rng, flavour, 3, 10, 'run.hold("payments")', cpu=0)
    pause = parts.milliseconds(rng, 2, 6)
    jitter = rng.choice(["", " * (0.5 + number % 7 / 7)"])
    return Part(
        setup=f'payments = threading.Semaphore(run.size("payments", {count}))',
        step=lines(f"""
            before = run.clock()
            backoff = {pause / 1000:.4f}
            while not payments.acquire(blocking=False):
                time.sleep(backoff{jitter})
                backoff = min(backoff * 2, 0.05)
            run.lost("payments", before)
            try:
                with trace.span("pay"):
                    {held.line}
            finally:
                payments.release()
            """),
        changes=(parts.hold("payments", 0.5), parts.size("payments", count, count * 2)),
        culprits=(parts.planted("payments", "*sleep*"),),
        alone_ms=held.ms,
        serial_ms=held.ms * 1.4 / count,
    )
