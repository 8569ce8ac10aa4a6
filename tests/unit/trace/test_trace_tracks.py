"""asyncio tasks and greenlets: what each does is on its own track."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from support.ctrace_events import BEGIN, SWITCH, Trace, record

GREENLETS = pytest.mark.needs(
    importlib.util.find_spec("greenlet") is not None, "greenlet is not installed: pip install greenlet"
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


@GREENLETS
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_greenlets_that_end_are_thrown_into_or_freed(seed: int, tmp_path: Path) -> None:
    """Whoever comes next, by whatever way the one before went: each event is on the track of who made it."""
    told = record(
        f"""
        import gc, greenlet, random
        trace.start(DIRECTORY)
        draw = random.Random({seed})
        names, alive = {{}}, []
        def note():
            trace.instant(f"of {{names.get(id(greenlet.getcurrent()), 'main')}}")
        def work(*args, **options):
            try:
                for _ in range(draw.randrange(1, 9)):
                    note()
                    step(draw.choice("switch switch switch make end".split()))
                    note()
            finally:
                note()
        def step(what):
            others = [one for one in alive if one is not greenlet.getcurrent() and not one.dead]
            if what == "end":
                raise greenlet.GreenletExit
            if what == "make" or not others:
                one = greenlet.greenlet(work, parent=draw.choice([main, greenlet.getcurrent()]))
                made.append(id(one)); names[id(one)] = len(made)  # addresses come again
                alive.append(one)
                one.switch(*range(draw.randrange(9)), **{{"n": 1, "m": 2}})
            else:
                draw.choice(others).switch(*([] if draw.random() < 0.5 else [2, 3]))
        made = []
        main = greenlet.getcurrent()
        for _ in range(400):
            note()
            alive = [one for one in alive if not one.dead]
            what = draw.choice("make switch switch throw free".split())
            if what == "throw" and alive:
                draw.choice(alive).throw()
            elif what == "free" and alive:
                # Freed while it is suspended: greenlet ends it then and there, by a switch of its own.
                index = draw.randrange(len(alive))
                del alive[index]
                gc.collect()
            elif len(alive) < 8:
                step("make")
            else:
                step("switch")
            note()
        for one in list(alive):
            one.throw()
        note()
        trace.stop()
        """,
        tmp_path,
    )
    names: dict[int, set[str]] = {}
    for event in told.events:
        if event.name.startswith("of "):
            names.setdefault(event.track, set()).add(event.name)
    thread = next(track for track, of in told.tracks.items() if of.kind == 1 and of.name == "MainThread")
    assert names.pop(thread) == {"of main"}
    assert len(names) > 50 and all(len(of) == 1 for of in names.values())


@GREENLETS
def test_greenlets_methods_stay_as_they_were(tmp_path: Path) -> None:
    record(
        """
        import greenlet, gc
        own = dict(greenlet.greenlet.__dict__)
        trace.start(DIRECTORY)
        class Sub(greenlet.greenlet):
            def run(self, *args, **options): return args, options
        assert Sub().switch(1, 2, a=3) == ((1, 2), {"a": 3})
        many = {f"k{i}": i for i in range(9)}
        assert Sub().switch(*range(20), **many) == (tuple(range(20)), many)
        assert greenlet.greenlet(lambda: 1).switch.__name__ == "switch"
        for name in ("switch", "throw"):
            ours = getattr(greenlet.greenlet, name)
            assert ours.__doc__ and ours.__name__ == name and type(ours) is type(own[name])
            assert ours.__objclass__ is greenlet.greenlet
            try: ours(1)
            except TypeError: pass
            else: raise AssertionError
        def fails(): raise ValueError("mine")
        try: greenlet.greenlet(fails).switch()
        except ValueError as error: assert str(error) == "mine"
        one = greenlet.greenlet(lambda: 1)
        try: one.throw(KeyError("in"))
        except KeyError: pass
        else: raise AssertionError
        bound = greenlet.greenlet(lambda *a: a).switch
        assert bound(1, 2) == (1, 2)
        trace.stop()
        from contend._native import trace_greenlets
        early = greenlet.greenlet(lambda *a: a).switch
        trace_greenlets(False)
        assert early(4, 5) == (4, 5), "a method that was bound before still switches"
        assert greenlet.greenlet.__dict__["switch"] is own["switch"]
        bound = greenlet.greenlet(lambda *a: a).switch
        assert bound(3) == (3,)
        """,
        tmp_path,
    )


@pytest.mark.needs(importlib.util.find_spec("gevent") is not None, "gevent is not installed")
def test_greenlets_of_gevent_switch_from_c(tmp_path: Path) -> None:
    told = record(
        """
        import greenlet
        trace.start(DIRECTORY)
        import gevent
        def work(number):
            for _ in range(5):
                with trace.span(f"g{number}"): gevent.sleep(0)
        gevent.joinall([gevent.spawn(work, number) for number in range(4)])
        with trace.span("main"): pass
        trace.stop()
        """,
        tmp_path,
    )
    names: dict[int, set[str]] = {}
    for track, name, *_ in told.spans():
        names.setdefault(track, set()).add(name)
    assert sorted(map(sorted, names.values())) == [["g0"], ["g1"], ["g2"], ["g3"], ["main"]]
