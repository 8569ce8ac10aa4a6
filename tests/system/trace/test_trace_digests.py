"""Digests of arguments: the same for the same, of no use to anybody else, and never in a program's way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from contend._native import ctrace_calls
from contend.trace.launch import TraceOptions
from support.traced_program import PATH, begun, said, traced

VALUES = """
    import collections, datetime, decimal, uuid
    from contend import trace

    class Hostile:
        def __repr__(self): raise RuntimeError("asked")
        __str__ = __hash__ = __eq__ = __iter__ = __repr__
    class Dict(dict):
        def __iter__(self): raise RuntimeError("asked")
    class Zone(datetime.tzinfo):
        def utcoffset(self, when): raise RuntimeError("asked")
        __repr__ = utcoffset

    digest, day = trace.digest, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    same = [
        (1, 1), ("a", "a"), (b"a", bytearray(b"a")), ([1, "x"], (1, "x")), ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({1, 2, 3}, {3, 2, 1}), (day, day + datetime.timedelta(0)), (uuid.UUID(int=3), uuid.UUID(int=3)),
        (decimal.Decimal("1.50"), decimal.Decimal("1.50")), (None, None),
    ]
    for one, other in same:
        assert digest(one) == digest(other) is not None, (one, other)
    told = [0, 1, True, None, 1.0, "1", b"1", [], {}, set(), [[]], [1], {1: 2}, {2: 1}, "ab", ["a", "b"], [["a"], "b"],
            day, day.date(), decimal.Decimal("1.5"), decimal.Decimal("1.50"), -1, "", b"", frozenset({1})]
    assert len({digest(value) for value in told}) == len(told)
    assert digest(1, 2) != digest(2, 1) and digest("a", "b") != digest("ab")
    deep = [loop := []]
    loop.append(deep)
    untold = [object(), Hostile(), [Hostile()], {"a": Hostile()}, Dict(a=1), collections.OrderedDict(), "x" * 70000,
              list(range(5000)), deep, 1 << 64, day.replace(tzinfo=Zone()), len, Hostile]
    for value in untold:
        assert digest(value) is None, value
    with trace.span("call", kind="remote", arguments=digest("secret-argument")): pass
    trace.stop()
    assert digest(1) is None
"""


def test_the_same_for_the_same_and_nothing_for_what_is_not_plain(tmp_path: Path) -> None:
    found = traced(tmp_path, VALUES)
    (call,) = begun(found[0], "call")
    assert isinstance(call["arguments"], int)
    assert "secret-argument" not in said(found)


STATEMENTS = """
    import os, subprocess, sys, sqlalchemy as sa
    engine = sa.create_engine("sqlite://")
    with engine.begin() as c:
        c.execute(sa.text("CREATE TABLE t (id INTEGER, state TEXT)"))
        c.execute(sa.text("INSERT INTO t VALUES (1, 'up')"))
        for state in ("secret-up", "secret-up", "secret-down"):
            c.execute(sa.text("UPDATE t SET state = :state WHERE id = :id"), {"state": state, "id": 1})
        c.execute(sa.text("UPDATE t SET state = 'x' WHERE id = 77"))
    if len(sys.argv) == 1:
        subprocess.run([sys.executable, __file__, "again"], check=True)
"""


def test_statements_with_the_same_parameters_in_two_processes(tmp_path: Path) -> None:
    found = traced(tmp_path, STATEMENTS)
    updates = [begun(told, "UPDATE t SET state = ? WHERE id = ?") for told in found]
    first, second = ([call["arguments"] for call in calls] for calls in updates)
    assert first == second, "both processes have the recording's key"
    assert first[0] == first[1] != first[2] and len(set(first)) == 3  # the last has its values in its text
    assert "secret" not in said(found)
    (file, *_) = (tmp_path / "t").glob("*.ctrace")
    assert b"secret" not in file.read_bytes()
    table = ctrace_calls([str(file)])["calls"]
    at = table["name"].index("UPDATE t SET state = ? WHERE id = ?")
    told = {
        key: int.from_bytes(table[key][8 * at : 8 * at + 8], "little")
        for key in ("calls", "seen", "unchanged")
    }
    assert told == {"calls": 4, "seen": 1, "unchanged": 1}


def test_none_where_none_are_wanted(tmp_path: Path) -> None:
    found = traced(tmp_path, STATEMENTS, "--no-digests")
    assert not any("arguments" in event.args for told in found for event in told.events)


def test_every_recording_has_a_key_of_its_own(tmp_path: Path) -> None:
    told = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (found, _) = traced(tmp_path / name, STATEMENTS)
        told.append(begun(found, "UPDATE t SET state = ? WHERE id = ?")[0]["arguments"])
    assert told[0] != told[1]
    asked = TraceOptions(tmp_path)
    assert asked.key not in repr(asked) and len(asked.key) == 32


def test_a_program_without_contend_trace_draws_its_own_key(tmp_path: Path) -> None:
    code = (
        "import sys; from contend import trace; trace.start(sys.argv[1]); a = trace.digest('x');"
        "assert a == trace.digest('x'); trace.stop(); print(a)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / str(n))],
            env={"PYTHONPATH": PATH}, capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for n in range(2)
    ]  # fmt: skip
    assert said[0] != said[1]
