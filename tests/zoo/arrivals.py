"""How jobs come where no mechanism drives them: all at once, at a rate, or through a fixed number of workers."""

from __future__ import annotations

from random import Random

from zoo import parts
from zoo.parts import Change, Frame, indented, lines

_START = {
    "threads": "threading.Thread(target=order, args=(number, size))",
    "eventlet": "eventlet.spawn(order, number, size)",
    "gevent": "gevent.spawn(order, number, size)",
    "asyncio": "asyncio.create_task(order(number, size))",
}
_END = {
    "threads": "started.join()",
    "eventlet": "started.wait()",
    "gevent": "started.join()",
    "asyncio": "await started",
}

_BUSY_MS = 2.5


def defined(head: str, body: str, flavour: str) -> str:
    """The function `order`, which does one job."""
    word = "async def" if flavour == "asyncio" else "def"
    return f"{word} order(number, size):\n{indented(head)}\n{indented(body, 2)}\n\n"


def at_once(flavour: str, gap_ms: float = 0.0) -> Frame:
    """Jobs that are all started, each so many ms after the one before it."""

    def frame(head: str, body: str) -> str:
        text = defined(head, body, flavour) + "running = []\nfor number, size in enumerate(run.sizes):\n"
        text += f"    running.append({_START[flavour]})\n"
        if flavour == "threads":
            text += "    running[-1].start()\n"
        if gap_ms:
            pause = "await asyncio.sleep" if flavour == "asyncio" else "time.sleep"
            text += f"    {pause}({gap_ms / 1000:.4f})\n"
        return text + f"for started in running:\n    {_END[flavour]}"

    return frame


def workers(count: int) -> Frame:
    """Worker threads that take one job after the other from a queue, which is full when they begin."""

    def frame(head: str, body: str) -> str:
        return defined(head, body, "threads") + lines(
            f"""

            waiting = queue.Queue()
            for number, size in enumerate(run.sizes):
                waiting.put((number, size))

            def worker():
                with contextlib.suppress(queue.Empty):
                    while True:
                        order(*waiting.get_nowait())

            crew = [threading.Thread(target=worker) for _ in range(run.workers("waiting", {count}))]
            for each in crew:
                each.start()
            for each in crew:
                each.join()
            """
        )

    return frame


def processes(count: int) -> Frame:
    """Worker processes that take one job after the other from a queue."""

    def frame(head: str, body: str) -> str:
        return defined(head, body, "threads") + lines(
            f"""

            waiting, counted = multiprocessing.Queue(), multiprocessing.Queue()

            def worker():
                for number, size in iter(waiting.get, None):
                    order(number, size)
                counted.put((run.spans, run.losses))

            crew = [multiprocessing.Process(target=worker) for _ in range({count})]
            for each in crew:
                each.start()
            for number, size in enumerate(run.sizes):
                waiting.put((number, size))
            for each in crew:
                waiting.put(None)
            for each in crew:
                run.merge(counted.get())
            for each in crew:
                each.join()
            """
        )

    return frame


def usual(rng: Random, flavour: str, alone_ms: float, serial_ms: float) -> tuple[Frame, int, list[Change]]:
    """An arrival, how many jobs it lets in together (0 for all), and the edits that it can make.

    Jobs that hardly hold each other up never come all at once: such a storm would be over too soon.
    """
    if flavour == "processes":
        count = rng.randint(3, 5)
        return processes(count), count, []
    ways = ["rate"] + ["workers"] * (flavour == "threads") + ["at once"] * (serial_ms >= _BUSY_MS)
    way = rng.choice(ways)
    if way == "workers":
        count = rng.randint(3, 10)
        return workers(count), count, [parts.workers("waiting", count, count * 2)]
    gap = round(max(serial_ms * rng.uniform(0.6, 1.1), rng.uniform(3, 6)), 1)
    return at_once(flavour, gap if way == "rate" else 0.0), 0, []
