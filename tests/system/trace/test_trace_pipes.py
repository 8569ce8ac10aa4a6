"""Pipes of multiprocessing, in programs that know nothing of the tracer."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ctrace_events import LOCK_WAIT, QUEUE_GOT, QUEUE_PUT, Trace
from support.traced_program import traced

HELPED = """
import multiprocessing, sys, time
class Shop:
    def __init__(self, context):
        self.counter, self.store = context.Pipe()
def help_out(shop):
    while (order := shop.store.recv()) is not None:
        time.sleep(0.01)
        shop.store.send(order * 2)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    shop = Shop(context)
    helper = context.Process(target=help_out, args=(shop,)); helper.start()
    for order in range(3):
        shop.counter.send(order)
        assert shop.counter.recv() == order * 2
    shop.counter.send(None); helper.join()
    out, into = context.Pipe(duplex=False)
    into.send(b"1"); assert out.recv() == b"1"
    into.send_bytes(b"2"); assert out.recv_bytes() == b"2"
    into.close()
    try: out.recv()
    except EOFError: pass
    else: raise AssertionError
    out.close()
    try: out.recv()
    except OSError as error: assert "closed" in str(error), error
    else: raise AssertionError
    with context.Manager() as manager: manager.list([1])
"""


def passed(told: Trace, kind: int) -> list[str]:
    return [event.name for event in told.of(kind)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_way_of_a_pipe_is_a_queue_called_as_the_end_that_receives(method: str, tmp_path: Path) -> None:
    told, *others = traced(tmp_path, HELPED, arguments=(method,))
    assert passed(told, QUEUE_PUT) == ["Shop.store"] * 4 + ["out"]
    assert passed(told, QUEUE_GOT) == ["Shop.counter"] * 3 + ["out"]
    assert passed(told, LOCK_WAIT).count("Shop.counter") == 3
    # An end that is pickled is another object, of which it is not known what it is an end of.
    helped = method == "fork"
    got = [name for one in others for name in passed(one, QUEUE_GOT)]
    put = [name for one in others for name in passed(one, QUEUE_PUT)]
    assert (got, put) == ((["Shop.store"] * 4, ["Shop.counter"] * 3) if helped else ([], []))
