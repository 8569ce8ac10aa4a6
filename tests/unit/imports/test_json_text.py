"""A document is read item by item: what is found and what is said do not depend on where it is parted."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.errors import BadInput
from contend.imports import json_text, source
from contend.imports.json_text import JsonText
from contend.imports.read import read_files
from support import foreign_files as made


class Kept:
    def __init__(self) -> None:
        self.items: list[Any] = []

    def add(self, item: Any) -> None:
        self.items.append(item)


def _opened(data: bytes) -> JsonText:
    return JsonText(
        io.BytesIO(data),
        {".a[].b": Kept, "[].b": Kept, ".b": Kept},
        lambda what, hint: BadInput(what, hint=hint),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Kept):
        return value.items
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _read(data: bytes) -> list[Any]:
    text = _opened(data)
    return [_plain(text.first), *map(_plain, text.others())]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcé"), inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.lists(VALUES, max_size=4) | st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(DOCUMENTS, min_size=1, max_size=3), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans()
)
def test_it_is_what_json_reads(
    documents: list[Any], chunk: int, indent: int | None, ascii_only: bool
) -> None:
    text = "fio: a note\n" + "\n".join(
        json.dumps(d, indent=indent, ensure_ascii=ascii_only) for d in documents
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "CHUNK", chunk + len("fio: a note\n"))
        assert _read(text.encode()) == documents


@settings(max_examples=60, deadline=None)
@given(
    DOCUMENTS,
    st.integers(1, 200),
    st.sampled_from([":", "}", "]", '"', "x", "\0", "\xff", ""]),
    st.integers(1, 20),
)
def test_what_is_broken_is_said_alike_however_it_is_parted(
    document: Any, at: int, put: str, chunk: int
) -> None:
    whole = json.dumps(document, indent=1)
    data = (whole[: at % len(whole)] + put).encode("latin-1") + (
        whole[at % len(whole) + 1 :] if put else ""
    ).encode()
    told = []
    for size in (1 << 20, chunk):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_text, "CHUNK", size)
            try:
                told.append(_read(data))
            except BadInput as error:
                # The beginning is looked for in the first chunk only; text that is no UTF-8 may be found first.
                if "UTF-8" in error.message or "no JSON" in error.message:
                    return
                told.append(error.message)
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' * 60_000, "nested too deeply"),
        (b'[{"b": [' + b"9" * 5000 + b"]}]", "too many digits"),
        (b'[{"b": ["' + b"x" * (6 << 20), "larger than 1 MiB"),
        (b'[{"c": [1]}' + b',{"c": [1]}' * 70_000, "are no results"),
        (b"{" + b",".join(b'"k%d":1' % n for n in range(70_000)), "are no results"),
        (b'[{"b": [1, 2,\n 3', "ends in the middle, in line 2"),
        (b'[{"b": [1, 2,\n 3 4]}]' + b" " * 100, "breaks off in line 2, column 4"),
        (b'[{"b": [1 2]}]' + b" " * (3 << 20), "breaks off in line 1, column 11"),
        (b"[1]\xff", "UTF-8"),
        (b"nothing\n", "no JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_documents_that_are_none(data: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MOST_ITEM", 1 << 20)
    monkeypatch.setattr(json_text, "MOST_KEPT", 1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=said):
            _read(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40 << 20


def test_a_long_list_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40,000 iterations, or of hundreds of reports that are one file."""
    monkeypatch.setattr(json_text, "CHUNK", 1 << 16, raising=False)
    read_files([made.write(tmp_path / "short.json", made.fio())])  # what is imported on the way is not meant
    row = '{"timestamp": %d.5, "duration": 0.25, "idle_duration": 0.0, "error": [], "atomic_actions": {"boot": 0.125}}'
    key = '{"name": "NovaServers.boot", "kw": {"runner": {"type": "constant", "times": 1, "concurrency": 1}}}'
    rows = ", ".join(row % (1_700_000_000 + n) for n in range(40_000))
    report = json.dumps(made.fio(), indent=1)
    for content in (
        f'[{{"key": {key}, "result": [{rows}]}}]',
        "\n".join([report] * (5_000_000 // len(report))),
    ):
        path = made.write(tmp_path / "long.json", content)
        tracemalloc.start()
        try:
            found = read_files([path])
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(found.placed) == 1
        assert most < path.stat().st_size, f"{most:,}"


def test_a_line_of_a_table_and_what_is_unpacked_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "timeStamp,elapsed,label\n1700000000000,5,a\n"
    with pytest.raises(BadInput, match="line 3 is longer than 1024 KiB"):
        read_files([made.write(tmp_path / "a.jtl", head + "1" * (3 << 20))])
    monkeypatch.setattr(source, "MOST_TABLE_BYTES", 4 << 20)
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress((head + "1700000000000,5,a\n" * 500_000).encode()))
    with pytest.raises(BadInput, match="it unpacks to more than"):
        read_files([packed])


def test_reading_is_told_of_every_byte(tmp_path: Path) -> None:
    for content in (made.rally_old([0.5] * 2000), made.jmeter([5] * 20_000), made.fio()):
        path = made.write(tmp_path / "file", content)
        told: list[int] = []
        read_files([path], read=told.append)
        assert path.stat().st_size <= sum(told) <= 2 * path.stat().st_size + 2 * (1 << 18)
