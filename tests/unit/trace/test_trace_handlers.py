"""What is told of a request that a server's method handles, and where it finds that (`trace_wrap`, kind 10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contend import trace
from contend._native import trace_flow, trace_wrap
from contend.trace.patches.http_names import flow
from support.ctrace_events import BEGIN, END, FLOW_IN, JOB_BEGIN, JOB_END, Trace, read

HANDLER = 10
WAYS = ((0, "request", "method"), (0, "request", "path"), (1, "client"), (1, "server", 1), (0, "status"))


def served(method: str, path: str) -> str:
    return f"{method} {path}!"


def handler(function: Callable[..., Any], *ways: tuple[Any, ...]) -> Callable[..., Any]:
    return trace_wrap(function, "", HANDLER, ({("GET", "/known"): "known"}, served, *(ways or WAYS)))


def task(path: object = "/a", **more: Any) -> SimpleNamespace:
    return SimpleNamespace(request=SimpleNamespace(method="GET", path=path), **more)


CONNECTION = SimpleNamespace(client=("127.0.0.1", 4711), server=("0.0.0.0", 80))


def recorded(directory: Path, act: Callable[[], object]) -> Trace:
    path = trace.start(directory)
    act()
    trace.stop()
    return read(path)


def test_a_request_is_a_job_and_a_span_with_its_status(tmp_path: Path) -> None:
    def handle(one: SimpleNamespace, connection: object) -> str:
        one.status = "404 Not Found"
        return "done"

    handles = handler(handle)
    results: list[object] = []
    told = recorded(tmp_path, lambda: results.append(handles(task(), CONNECTION)))
    assert results == ["done"]
    [begun], [ended] = told.of(BEGIN), told.of(END)
    assert begun.name == "GET /a!" and ended.args == {"status": 404}
    assert len(told.of(JOB_BEGIN)) == len(told.of(JOB_END)) == len(told.of(FLOW_IN)) == 1


def test_a_name_that_is_known_is_not_made_again(tmp_path: Path) -> None:
    handles = handler(lambda one, connection: None)
    assert recorded(tmp_path, lambda: handles(task("/known"), CONNECTION)).of(BEGIN)[0].name == "known"


@pytest.mark.parametrize("connection", [SimpleNamespace(), SimpleNamespace(client=None, server="unix:/a")])
def test_what_is_not_there_is_not_told(connection: object, tmp_path: Path) -> None:
    handles = handler(lambda one, connection: 7)
    told = recorded(tmp_path, lambda: handles(task(), connection))
    assert told.of(FLOW_IN) == [] and told.of(END)[0].args == {}


def test_a_failure_ends_the_span_and_stays_what_it_is(tmp_path: Path) -> None:
    def handle(one: object, connection: object) -> None:
        raise KeyError("mine")

    def act() -> None:
        with pytest.raises(KeyError, match="mine"):
            handler(handle)(task(), CONNECTION)

    told = recorded(tmp_path, act)
    assert told.of(END)[0].value == 1 and len(told.of(JOB_END)) == 1


def test_a_server_with_other_arguments_serves_unrecorded(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("not a text")

    handles = handler(lambda *args: len(args))
    results: list[int] = []

    def act() -> None:
        results.append(handles())
        results.append(handles(task(Odd()), CONNECTION))

    told = recorded(tmp_path, act)
    assert results == [0, 2]
    assert [event.name for event in told.of(BEGIN)] == ["None None!"]


@pytest.mark.parametrize("at", [0, 4])
def test_nobody_loses_an_interrupt(at: int, tmp_path: Path) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    ways = list(WAYS)
    ways[at] = (0, interrupted)

    def act() -> None:
        with pytest.raises(KeyboardInterrupt):
            handler(lambda one, connection: None, *ways)(task(), CONNECTION)

    told = recorded(tmp_path, act)
    assert len(told.of(BEGIN)) == len(told.of(END)) == (0 if at == 0 else 1)


def test_what_a_request_is_called_is_its_own_methods_and_paths(tmp_path: Path) -> None:
    handles = handler(lambda one, connection: None)
    asked = [(method, f"/{number % 400}") for number in range(1200) for method in ("GET", "POST")]
    asked += [("GET", "/" + "long" * 100), ("GET", "/" + "long" * 100), ("PUT", "/ä"), ("PUT", "/" + "ä")]

    def act() -> None:
        for method, path in asked:
            # Neither is the object that it was the last time.
            told = SimpleNamespace(method="".join(list(method)), path="".join(list(path)))
            handles(SimpleNamespace(request=told), CONNECTION)

    begun = recorded(tmp_path, act).of(BEGIN)
    assert [event.name for event in begun] == [served(*each) for each in asked]


class Text(str):
    """A program's own text."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("asked")

    __hash__ = str.__hash__


def test_a_text_of_the_programs_own_class_is_looked_up_where_all_are(tmp_path: Path) -> None:
    handles = handler(lambda one, connection: None)
    told = recorded(tmp_path, lambda: [handles(task(path), CONNECTION) for path in ("/a", Text("/a"), "/a")])
    assert [event.name for event in told.of(BEGIN)] == ["GET /a!"] * 3


def test_a_connection_is_asked_for_its_port_once(tmp_path: Path) -> None:
    asked: list[object] = []

    def port(connection: Any) -> int:
        asked.append(connection.client)
        return 80

    handles = handler(lambda one, connection: None, *WAYS[:3], (1, port), WAYS[4])
    clients = [(f"127.0.0.{number % 9}", 1000 + number) for number in range(300)]
    clients += [("192.0.2.1", 4711)]

    def act() -> None:
        for client in clients:
            for _ in range(3):
                handles(task(), SimpleNamespace(client=client))

    told = recorded(tmp_path, act).of(FLOW_IN)
    assert asked == clients[:-1], "and one from elsewhere is not asked: nobody traced is at its other end"
    numbers = [trace_flow("", flow(client, 80), True) & 0xFFFFFFFF for client in clients[:-1]]  # type: ignore[arg-type]
    assert [event.value for event in told] == [number for number in numbers for _ in range(3)]


def test_what_is_kept_is_asked_for_once(tmp_path: Path) -> None:
    asked: list[object] = []

    def port(listener: Any) -> int:
        asked.append(listener)
        listener.kept = 80
        return 80

    def angry(_listener: object) -> int:
        raise ValueError("not now")

    told = []
    for number, ask in enumerate((port, angry)):
        ways = (*WAYS[:2], (1,), (2, ("kept", ask)), WAYS[4])
        handles = handler(lambda *args: None, *ways)
        listener = SimpleNamespace()

        def act(handles: Any = handles, listener: Any = listener) -> None:
            for at in range(4):
                handles(task(), ("127.0.0.1", at), listener)

        told.append(recorded(tmp_path / str(number), act))
    assert len(asked) == 1
    assert [len(each.of(FLOW_IN)) for each in told] == [4, 0]


@pytest.mark.parametrize(
    "told",
    [
        (),
        ({}, served),
        ({}, served, *WAYS[:4], (0, 1.5)),
        ({}, served, *WAYS[:4], ("status",)),
        ({}, served, *WAYS[:4], (0, ("a", "b", 1))),
        None,
    ],
)
def test_ways_that_lead_nowhere_are_refused(told: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        trace_wrap(len, "", HANDLER, told)
