"""A short program that uses every part of the recorder, for any CPython: `python trace_smoke.py DIRECTORY`.

Prints what was to be seen, one `NAME COUNT` a line; only the standard library and contend.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import sys
import threading

from contend import trace


@trace.traced
def function(value: int = 1) -> int:
    return value


class Owner:
    @trace.traced
    def method(self, value: int) -> int:
        return value

    @classmethod
    @trace.traced
    def of_class(cls) -> type:
        return cls

    @staticmethod
    @trace.traced
    def static(*values: int, **named: int) -> int:
        return len(values) + len(named)

    @property
    @trace.traced
    def value(self) -> int:
        return 1


class Heir(Owner):
    @trace.traced
    def method(self, value: int) -> int:
        return super().method(value)


@trace.traced
def steps() -> object:
    got = yield 1
    yield got


@trace.traced
async def task(number: int) -> int:
    await asyncio.sleep(0)
    return number


@trace.traced
def fails() -> None:
    raise ValueError("meant")


def calls() -> None:
    owner, heir = Owner(), Heir()
    for _ in range(100):  # often enough for the specialising interpreter
        assert function() == 1 and function(value=2) == 2 and function(3) == 3
        assert owner.method(4) == 4 and heir.method(5) == 5 and owner.method(value=6) == 6
        assert Owner.of_class() is Owner and owner.static(1, a=2) == 2 and owner.value == 1
    assert pickle.loads(pickle.dumps(function)) is function
    running = steps()
    assert next(running) == 1 and running.send("x") == "x"
    with contextlib.suppress(ValueError):
        fails()

    async def main() -> None:
        assert await asyncio.gather(*(task(n) for n in range(5))) == [0, 1, 2, 3, 4]

    asyncio.run(main())


def locks() -> None:
    plain, again = trace.Lock(name="plain"), trace.RLock(name="again")
    tasks: trace.Queue[int] = trace.Queue(name="tasks")

    def work() -> None:
        for _ in range(200):
            with plain, again, again:
                tasks.put(1)
            assert tasks.get() == 1
            if plain.acquire(timeout=30):
                plain.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with plain:
        waits = threading.Thread(target=plain.acquire, kwargs={"timeout": 0.01})
        waits.start()
        waits.join()
    assert not plain.locked() and not again._is_owned()


def child() -> None:
    pid = os.fork()
    if pid == 0:
        with trace.span("in child"):
            function()
        trace.stop()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def main() -> None:
    calls()  # off
    for number in range(3):
        trace.start(os.path.join(sys.argv[1], str(number)), cpu_times=number == 1, run_delay=number == 2)  # noqa: PTH118
        with trace.span("all", number=number):
            calls()
            locks()
        trace.counter("count", 1.5)
        trace.instant("instant")
        with trace.job("job"):
            trace.flow.received("message", trace.flow.sent("message"))
        child()
        gc.collect()
        status = trace.stop()
        assert status.failure is None and status.lost == 0, status
    print("done")


if __name__ == "__main__":
    main()
