"""What a traced function records, and that it stays the function that it was."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gc
import inspect
import pickle
import warnings
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend import trace
from contend.errors import BadInput
from support.ctrace_events import BEGIN, END, Trace, read


@contextlib.contextmanager
def recorded(directory: Path, **options: object) -> Iterator[list[Trace]]:
    traces: list[Trace] = []
    path = trace.start(directory, **options)  # type: ignore[arg-type]
    try:
        yield traces
    finally:
        trace.stop()
    traces.append(read(path))


@trace.traced
def add(a: int, b: int = 1, *rest: int, c: int = 0, **more: int) -> int:
    """Sums up."""
    return a + b + sum(rest) + c + sum(more.values())


add.mark = "kept"  # type: ignore[attr-defined]


class Shape:
    @trace.traced
    def area(self, factor: int = 1) -> int:
        return 2 * factor

    @trace.traced
    @classmethod
    def make(cls) -> Shape:
        return cls()

    @classmethod
    @trace.traced
    def made(cls) -> Shape:
        return cls()

    @trace.traced
    @staticmethod
    def twice(a: int) -> int:
        return 2 * a

    @trace.traced
    @property
    def size(self) -> int:
        """How large."""
        return 3


class Square(Shape):
    def area(self, factor: int = 1) -> int:
        return super().area(factor) + 1


def test_it_is_still_the_function() -> None:
    assert add(1) == 2 and add(1, 2, 3, c=4, d=5) == 15 and add(*(1, 2), c=3) == 6
    assert add.__name__ == "add" and add.__doc__ == "Sums up." and add.__module__ == __name__
    assert (
        str(inspect.signature(add))
        == "(a: 'int', b: 'int' = 1, *rest: 'int', c: 'int' = 0, **more: 'int') -> 'int'"
    )
    assert add.__wrapped__.__qualname__ == "add" and add.mark == "kept"  # type: ignore[attr-defined]
    assert add.__defaults__ == (1,) and add.__code__.co_name == "add"
    assert pickle.loads(pickle.dumps(add)) is add and copy.deepcopy(add) is add
    assert weakref.ref(add)() is add and "add" in repr(add)
    assert functools.partial(add, 1)(2) == 3
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add()  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="no_such"):
        add.no_such  # type: ignore[attr-defined]  # noqa: B018


def test_methods_bind(tmp_path: Path) -> None:
    with recorded(tmp_path) as traces:
        shape = Square()
        bound = shape.area
        assert (shape.area(2), bound(3), Shape.area(shape, 1), map_area([shape])) == (5, 7, 2, [3])
        assert type(Square.make()) is Square and type(Square.made()) is Square
        assert Shape.twice(2) == 4 == shape.twice(2) and shape.size == 3
        assert pickle.loads(pickle.dumps(Shape.area)) is Shape.area
        assert list(inspect.signature(Shape().area).parameters) == ["factor"]
        assert inspect.ismethod(Shape().area) and Shape.size.__doc__ == "How large."
    names = [event.name.rpartition(":")[2] for event in traces[0].of(BEGIN)]
    assert names == ["Shape.area"] * 4 + [
        "Shape.make",
        "Shape.made",
        "Shape.twice",
        "Shape.twice",
        "Shape.size",
    ]
    assert len(traces[0].spans()) == len(names)


def map_area(shapes: list[Square]) -> list[int]:
    return list(map(Square.area, shapes))


def test_exceptions_pass_and_are_told(tmp_path: Path) -> None:
    @trace.traced(name="fails")
    def fails(depth: int) -> None:
        if depth:
            fails(depth - 1)
        raise KeyError(depth)

    with recorded(tmp_path) as traces, pytest.raises(KeyError):
        fails(3)
    assert [span[1:2] + span[4:] for span in traces[0].spans()] == [("fails", 1)] * 4


def test_generators_are_spans_of_their_steps(tmp_path: Path) -> None:
    @trace.traced(name="steps")
    def steps() -> Iterator[object]:
        got = yield 1
        try:
            yield got
        except ValueError:
            yield "caught"
        return (1, 2)

    assert inspect.isgeneratorfunction(steps)

    def outer() -> Iterator[object]:
        return (yield from steps())

    with recorded(tmp_path) as traces:
        running = outer()
        assert (next(running), running.send(5)) == (1, 5)  # type: ignore[attr-defined]
        assert running.throw(ValueError) == "caught"  # type: ignore[attr-defined]
        with pytest.raises(StopIteration) as stop:
            next(running)
        assert stop.value.value == (1, 2)
        assert list(steps())[:1] == [1]
        closed = steps()
        next(closed)
        closed.close()  # type: ignore[attr-defined]
        assert list(closed) == []
    spans = traces[0].spans()
    assert {span[1] for span in spans} == {"steps"} and len(spans) == 4 + 3 + 3
    assert not any(span[4] for span in spans)


def test_coroutines_leave_their_span_while_they_wait(tmp_path: Path) -> None:
    @trace.traced(name="work")
    async def work(number: int) -> int:
        await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        return number

    @trace.traced(name="count")
    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            await asyncio.sleep(0)
            yield number

    async def main() -> None:
        assert await asyncio.gather(*(work(number) for number in range(5))) == list(range(5))
        assert await asyncio.create_task(work(7)) == 7
        assert [number async for number in count(3)] == [0, 1, 2]
        failing = work(1)
        with pytest.raises(ValueError):
            failing.throw(ValueError())  # type: ignore[attr-defined]
        failing.close()  # type: ignore[attr-defined]

    assert inspect.iscoroutinefunction(work)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.14 on
        assert asyncio.iscoroutinefunction(work)
    assert inspect.isasyncgenfunction(count)
    with recorded(tmp_path) as traces:
        asyncio.run(main())
    spans = traces[0].spans()
    assert sum(span[1] == "work" for span in spans) == 6 * 3 + 2
    # No step holds the sleep.
    assert max(traces[0].seconds(end - begin) for _, name, begin, end, _ in spans if name == "work") < 0.009


def test_a_coroutine_that_nobody_awaits_still_warns() -> None:
    @trace.traced
    async def forgotten() -> None: ...

    with pytest.warns(RuntimeWarning, match=r"forgotten.* was never awaited"):
        forgotten()
        gc.collect()


def test_wrappers_in_cycles_are_collected() -> None:
    class Holder: ...

    def make() -> weakref.ref[Holder]:
        holder = Holder()

        @trace.traced
        def method() -> Holder:
            return holder

        holder.method = method  # type: ignore[attr-defined]
        return weakref.ref(holder)

    held = make()
    gc.collect()
    assert held() is None


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(BadInput, match="no function"):
        trace.traced(Shape)
    with pytest.raises(BadInput, match="3 cannot be traced"):
        trace.traced(3)
    assert trace.traced(add) is add


def test_off_nothing_is_recorded_and_a_second_session_has_its_own_file(tmp_path: Path) -> None:
    add(1)
    with recorded(tmp_path) as first:
        add(1)
    add(1)
    with recorded(tmp_path) as second:
        add(1)
        add(1)
    assert (len(first[0].spans()), len(second[0].spans())) == (1, 2)
    assert first[0].ended and second[0].ended


def test_starting_twice_is_refused_and_says_where(tmp_path: Path) -> None:
    with recorded(tmp_path), pytest.raises(BadInput, match=r"already recording into .*ctrace") as refused:
        trace.start(tmp_path / "other")
    assert refused.value.hint and not trace.status().recording


@pytest.mark.parametrize("options", [{"overflow": "wait"}, {"clock": "sundial"}, {"buffer_bytes": 1}])
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(BadInput) as refused:
        trace.start(tmp_path, **options)  # type: ignore[arg-type]
    assert refused.value.hint and str(next(iter(options.values()))) in refused.value.message


PROGRAM = st.recursive(
    st.sampled_from(["raise", "off", "on", "pass"]),
    lambda inner: st.lists(st.tuples(st.sampled_from("abcs"), inner), max_size=4),
    max_leaves=30,
)


@settings(max_examples=60, deadline=None)
@given(program=PROGRAM)
def test_any_program_leaves_balanced_spans(tmp_path_factory: pytest.TempPathFactory, program: object) -> None:
    """Calls, spans and exceptions nested anyhow, with recording switched at random in the midst of them."""
    directory = tmp_path_factory.mktemp("traces")

    def run(step: object) -> None:
        if step == "raise":
            raise LookupError
        if step == "off":
            trace.stop()
        elif step == "on":
            if not trace.status().recording:
                trace.start(directory)
        elif isinstance(step, list):
            for name, then in step:
                with contextlib.suppress(LookupError):
                    if name == "s":
                        with trace.span("s", depth=1):
                            run(then)
                    else:
                        functions[name](then)

    functions = {name: trace.traced(name=name)(run) for name in "abc"}
    trace.start(directory)
    with contextlib.suppress(LookupError):
        run(program)
    trace.stop()
    for path in directory.glob("*.ctrace"):
        told = read(path)
        begun = [event.name for event in told.of(BEGIN)]
        assert len(begun) >= len(told.of(END)) and told.ended and not told.torn
        open_: list[str] = []
        for event in told.events:
            if event.kind == BEGIN:
                open_.append(event.name)
            elif event.kind == END:
                assert open_.pop() == event.name
