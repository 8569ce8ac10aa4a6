"""asyncio tasks and greenlets: what each does is on its own track."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from support.ctrace_events import BEGIN, SWITCH, Trace, record

GREENLETS = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet is not installed: pip install greenlet"
)


def by_track(told: Trace) -> dict[str, set[str]]:
    """Names of spans by the name of their track."""
    result: dict[str, set[str]] = {}
    for track, name, *_ in told.spans():
        result.setdefault(told.tracks[track].name, set()).add(name)
    return result


@pytest.mark.parametrize("imported", ["before", "after"])
def test_each_task_has_its_track(imported: str, tmp_path: Path) -> None:
    """Spans that are open while others run do not cross: they are on tracks of their own."""
    told = record(
        f"""
        if {imported == "before"}: import asyncio
        trace.start(DIRECTORY)
        import asyncio, random
        async def worker(number):
            draw = random.Random(number)
            for step in range(20):
                with trace.span(f"s{{number}}"):
                    await asyncio.sleep(draw.random() * 0.001)
                    with trace.span(f"inner{{number}}"): await asyncio.sleep(0)
            return number
        async def fails():
            with trace.span("fails"):
                await asyncio.sleep(0)
                raise ValueError
        async def main():
            tasks = [asyncio.create_task(worker(n), name=f"worker-{{n}}") for n in range(10)]
            assert repr(tasks[0]) and tasks[0].get_coro().__qualname__ == "worker"
            assert await asyncio.gather(*tasks) == list(range(10))
            assert (await asyncio.gather(fails(), return_exceptions=True))[0].__class__ is ValueError
            cancelled = asyncio.create_task(worker(1)); await asyncio.sleep(0); cancelled.cancel()
            try: await cancelled
            except asyncio.CancelledError: pass
            async with asyncio.TaskGroup() as group: group.create_task(worker(0))
        asyncio.run(main())
        trace.stop()
        """,
        tmp_path,
    )
    spans = by_track(told)
    for number in range(10):
        assert spans[f"worker-{number}"] == {f"s{number}", f"inner{number}"}
    assert spans["fails"] == {"fails"} and spans["worker"] == {"s0", "inner0", "s1"} | (
        {"inner1"} & spans["worker"]
    )
    tasks = [track for track in told.tracks.values() if track.kind == 3]
    assert {told.tracks[track.parent].name for track in tasks} == {"MainThread"}


@GREENLETS
def test_each_greenlet_has_its_track(tmp_path: Path) -> None:
    told = record(
        """
        import greenlet, random, threading
        before = []
        greenlet.settrace(lambda event, args: before.append(event))
        def hub(count):
            draw = random.Random(4711)
            def work(number):
                for step in range(30):
                    with trace.span(f"g{number}"):
                        main.switch()
                        with trace.span("nested"): main.switch()
            main = greenlet.getcurrent()
            all_ = [greenlet.greenlet(work) for _ in range(count)]
            for number, one in enumerate(all_): one.switch(number)
            killed = greenlet.greenlet(work); killed.switch(99); killed.throw()
            while all_:
                one = draw.choice(all_)
                one.switch()
                if one.dead: all_.remove(one)
            with trace.span("main"): pass
        trace.start(DIRECTORY)
        hub(5)
        thread = threading.Thread(target=hub, args=(3,), name="second")
        thread.start(); thread.join()
        trace.stop()
        assert before, "the callback that was there is still called"
        """,
        tmp_path,
    )
    for track, name, *_ in told.spans():
        assert (told.tracks[track].kind == 1) == (name == "main")
    names: dict[int, set[str]] = {}
    for event in told.of(BEGIN):
        if event.name.startswith("g"):
            names.setdefault(event.track, set()).add(event.name)
    assert len(names) == 5 + 3 + 2 and all(len(of) == 1 for of in names.values())
    greenlets = [track for track in told.tracks.values() if track.kind == 2]
    assert (
        sorted(told.tracks[track.parent].name for track in greenlets) == ["MainThread"] * 6 + ["second"] * 4
    )
    assert {track.name for track in greenlets} == {"greenlet.greenlet"}


@GREENLETS
def test_greenlets_that_run_already_and_recording_on_and_off(tmp_path: Path) -> None:
    told = record(
        """
        import greenlet
        def work():
            main.switch()
            with trace.span("inside"): main.switch()
        main = greenlet.getcurrent()
        one, two = greenlet.greenlet(work), greenlet.greenlet(work)
        one.switch(); two.switch()
        def begin():
            trace.start(DIRECTORY)
            with trace.span("begun inside"): pass
            main.switch()
        three = greenlet.greenlet(begin); three.switch()
        with trace.span("main"): pass
        one.switch(); two.switch(); one.switch(); two.switch()
        trace.stop()
        """,
        tmp_path,
    )
    kinds = {name: told.tracks[track].kind for track, name, *_ in told.spans()}
    assert kinds == {"inside": 2, "main": 1, "begun inside": 2}
    assert len(told.of(SWITCH)) >= 7
