"""Managers of multiprocessing, in programs that know nothing of the tracer."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ctrace_events import BEGIN, FLOW_IN, FLOW_OUT, Trace
from support.traced_program import traced

KEPT = """
import multiprocessing, sys, threading, time
def keep(entries, lock):
    for number in range(3):
        with lock: entries.append(number)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Manager() as manager:
        entries, lock, counts = manager.list(), manager.Lock(), manager.dict()
        def count():
            for _ in range(2): counts["n"] = counts.get("n", 0) + 1
            try: counts.update(n=lambda: 1)
            except Exception as error: assert "pickle" in str(error), error
            else: raise AssertionError
            assert counts["n"] == 2
        other = threading.Thread(target=count); other.start()
        worker = context.Process(target=keep, args=(entries, lock)); worker.start()
        worker.join(); other.join()
        assert list(entries) == [0, 1, 2] and worker.exitcode == 0
"""


def messages(told: Trace, kind: int) -> list[int]:
    return [int(str(event.args[""])) for event in told.of(kind) if event.name == "manager"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_call_is_served_by_the_manager_and_answered(method: str, tmp_path: Path) -> None:
    found = traced(tmp_path, KEPT, arguments=(method,))
    names = {event.name for told in found for event in told.of(BEGIN)}
    (server,) = [told for told in found if any(event.name == "list.append" for event in told.of(BEGIN))]
    clients = [told for told in found if told is not server]
    asked = [flow for told in clients for flow in messages(told, FLOW_OUT)]
    answered = [flow for told in clients for flow in messages(told, FLOW_IN)]
    # The call that could not be pickled has come to nobody.
    assert len(set(asked)) == len(asked) - 1 and sorted(messages(server, FLOW_IN)) == sorted(set(asked))
    assert sorted(messages(server, FLOW_OUT)) == sorted(answered)
    served = [event.name for event in server.of(BEGIN) if event.args.get("kind") is None]
    assert served.count("list.append") == 3 and served.count("dict.get") == 2, served
    assert "manager list.append" in names and not any("acquire" in name for name in names)
    for told in found:
        told.spans()
