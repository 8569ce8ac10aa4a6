"""Of a run of thousands of trials a page draws a part, says which, and stays small."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.cli.common import load_report
from contend.report.html import render_html
from contend.report.plots import all_plots
from contend.report.timeline_plots import MOST_BANDS
from contend.store.compact import Compactor, Readings
from contend.store.damage import document, noting, numbered_rows, row_parser, whole_rows
from contend.store.directory import RunDirectory
from contend.store.rows import JUDGED, wrong_trial
from contend.text.masking import mask_row
from support.made_big import big_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return big_run(tmp_path_factory.mktemp("big"), 6000)


def test_a_part_is_drawn_and_all_of_it_counts(run: RunDirectory) -> None:
    report = load_report(run)
    plots = {plot.role: plot for plot in all_plots(report)}
    assert {cell.baseline.estimate.n for cell in report.analysis.cells} == {600}
    points, strip = plots["points"], plots["strip"]
    # Two victims share the page's dots: 5 rows of 600 each.
    assert "Every 8th of 3,000 trials is drawn and listed; all of them count." in points.caption
    assert len(points.spec["data"]["values"]) == len(points.table) == 375
    assert f"every {-(-6002 // MOST_BANDS)}th is drawn" in strip.caption
    assert len(strip.spec["data"]["values"]) <= MOST_BANDS
    wide = sorted(strip.spec["data"]["values"], key=lambda band: float(band["start"]))
    assert all(a["end"] == b["start"] for a, b in pairwise(wide)), "no gap between them"


def test_the_page_is_small_and_lists_few_ranges(run: RunDirectory) -> None:
    page = render_html(load_report(run))
    assert len(page.encode()) < 3 * 2**20
    assert page.count("vegaEmbed = vegaEmbed") <= 1
    assert 100 < len(re.findall(r"<option", page)) <= 210


def test_a_small_run_is_drawn_whole(tmp_path: Path) -> None:
    plots = all_plots(load_report(big_run(tmp_path, 100)))
    for plot in plots:
        assert "is drawn" not in plot.caption


def test_rows_are_read_once_for_a_report(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, times = RunDirectory(run.path), []

    def counting(
        path: Path, wrong: Callable[[Any], str], *, after: tuple[int, int] = (0, 0), **how: Any
    ) -> Iterator[tuple[bytes, dict[str, Any]]]:
        times.append(after[1])
        return numbered_rows(path, wrong, after=after, **how)

    monkeypatch.setattr("contend.store.trial_rows.numbered_rows", counting)
    fresh.compact_rows(fresh.plan())
    load_report(fresh)
    fresh.compact_rows()
    assert times == [0]
    fresh.append(dict(fresh.rows()[-1]) | {"trial": 10**6})
    times.clear()
    assert len(fresh.compact_rows()) == 6003, "what was added since is read"
    assert times == [6002], "and nothing else: a run that measures looks often"
    assert fresh.compact_rows()[-1]["trial"] == 10**6
    times.clear()
    with run.trials_path.open("ab") as file:
        file.write(b"[]\n")
    for _ in range(2):
        with noting() as damage:
            assert len(fresh.compact_rows()) == 6003
        assert [item.where for item in damage] == ["row 6004"], "damage is told each time"
    assert times == [6003, 0]
    lines = run.trials_path.read_bytes().splitlines(keepends=True)
    run.trials_path.write_bytes(b"".join(lines[:-2]))
    assert len(fresh.compact_rows()) == 6002, "and a file that was cut is read anew"


def test_compact_rows_say_the_same(run: RunDirectory) -> None:
    plain, compact = run.rows(), run.compact_rows()
    assert all(isinstance(row["evidence"], Readings) for row in compact)
    assert [{**row, "evidence": list(row["evidence"])} for row in compact] == plain
    assert compact[0]["evidence"].shape is compact[-1]["evidence"].shape


@pytest.mark.parametrize(
    "evidence",
    [None, 7, [1], [{}], [{"name": "a", "value": "x", "unit": "s"}], [{"name": [], "value": 1, "unit": 2}]],
)
def test_odd_evidence_stays_as_it_is(evidence: object) -> None:
    row = {"cell": ["odd"], "evidence": evidence, "metrics": [3], "factors": None}
    assert _compact(Compactor(lambda _: ""), row) == row


def _compact(compactor: Compactor, row: dict[str, Any]) -> dict[str, Any] | str:
    return compactor.wrong(row) or compactor.made(row)


def _read(compactor: Compactor, line: bytes, parse: Callable[[bytes], Any]) -> object:
    """What a line comes to: a row, written out, or what is wrong with it."""
    try:
        made = _compact(compactor, parse(line))
    except ValueError as error:
        return str(error)
    return made if isinstance(made, str) else json.dumps({**made, "evidence": list(made["evidence"])})


@pytest.fixture(scope="module")
def alike(run: RunDirectory) -> list[bytes]:
    """A few lines, the last ones of one cell."""
    lines = run.trials_path.read_bytes().splitlines(keepends=True)
    cell = json.loads(lines[9])["cell"]
    return [lines[0], *[line for line in lines[:200] if json.loads(line)["cell"] == cell][:4]]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_row_means_the_same_whichever_way_it_is_parsed(alike: list[bytes], data: st.DataObject) -> None:
    """Damaged lines too: after sound ones, so that their evidence is known and, of one, all but its figures."""
    *first, line = alike
    for _ in range(data.draw(st.integers(0, 3))):
        at, until = sorted((data.draw(st.integers(0, len(line))), data.draw(st.integers(0, len(line)))))
        kind = data.draw(st.sampled_from(["cut", "byte", "text", "figure", "figure"]))
        if kind == "cut":
            line = line[:at] + line[min(until, at + 40) :]
        elif kind == "byte":
            line = line[:at] + bytes([data.draw(st.integers(0, 255))]) + line[at + 1 :]
        elif kind == "figure":
            figures = [*re.finditer(rb"(?<=[:\[,])-?[0-9][0-9.e+-]*", line)]
            figure = figures[data.draw(st.integers(0, len(figures) - 1))] if figures else None
            other = data.draw(
                st.integers(-(1 << 65), 1 << 65) | st.floats() | st.sampled_from([1 << 31, -(1 << 63)])
            )
            if figure is not None:
                line = line[: figure.start()] + json.dumps(other).encode() + line[figure.end() :]
        else:
            text = data.draw(
                st.sampled_from(
                    [
                        '"evidence":[],',
                        "1e999",
                        '"\\ud800"',
                        "{}",
                        "\\",
                        "-0",
                        '{"value":1}',
                        "\x01c",
                        '"trial":1,',
                    ]
                )
            )
            line = line[:at] + text.encode() + line[at:]
    quick, plain = Compactor(wrong_trial), Compactor(wrong_trial)
    parse = row_parser()
    for each in (*first, line):
        assert _read(quick, each, quick.parse) == _read(plain, each, parse)


def test_evidence_as_it_was_before_is_not_made_again(run: RunDirectory) -> None:
    compactor = Compactor(wrong_trial)
    first, second = run.trials_path.read_bytes().splitlines(keepends=True)[:2]
    assert isinstance(compactor.parse(first)["evidence"][0], dict), "it has stood in no sound row yet"
    assert _compact(compactor, compactor.parse(first))
    row = compactor.parse(second)
    assert row["evidence"] is JUDGED
    assert list(compactor.made(row)["evidence"]) == json.loads(second)["evidence"]


def test_a_row_that_differs_in_figures_only_is_not_checked_again(run: RunDirectory) -> None:
    lines = run.trials_path.read_bytes().splitlines(keepends=True)
    like = [each for each in lines if json.loads(each)["cell"] == json.loads(lines[9])["cell"]]
    looked_at: list[object] = []
    compactor = Compactor(lambda row: looked_at.append(row) or "")  # type: ignore[func-returns-value]
    read = [compactor.made(row) for row in map(compactor.parse, like) if not compactor.wrong(row)]
    # The pilot, the first counted one, and one with a flag have each a form of their own; the first is read before its
    # evidence is known.
    assert len(looked_at) <= 6 < 100 < len(like) == len(read)
    assert [{**row, "evidence": list(row["evidence"])} for row in read] == [json.loads(each) for each in like]
    shared = ("factors", "honoured", "flags")
    assert all(read[-1][key] is read[-2][key] for key in shared)
    assert all(read[-1][key] is not read[-2][key] for key in ("metrics", "overhead", "evidence"))


def test_forms_are_few_where_each_row_has_its_own(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contend.store.compact.MOST_FORMS", 3)
    sound = run.rows()[3]
    compactor = Compactor(wrong_trial)
    for number in range(20):
        row = sound | {"trace": f"traces/{number}"}
        for _ in range(2):
            made = _compact(compactor, compactor.parse(json.dumps(row).encode()))
            assert isinstance(made, dict) and made["trace"] == f"traces/{number}"
    assert len(compactor._forms) == 3


def test_compact_rows_are_checked_and_masked_as_others(run: RunDirectory) -> None:
    """What a row shares with those before it is not checked again; what it does not share is."""
    compactor, sound = Compactor(wrong_trial), run.rows()[3]
    assert isinstance(_compact(compactor, copy.deepcopy(sound)), dict)
    for change in (
        {"evidence": [{**e, "value": math.nan} for e in sound["evidence"]]},
        {"evidence": [{**e, "value": True} for e in sound["evidence"]]},
        {"evidence": [{**e, "value": "7"} for e in sound["evidence"]]},
        {"evidence": [{**e, "name": 7} for e in sound["evidence"]]},
        {"evidence": [{"name": "wall"}]},
        {"factors": {"victim": 7}},
        {"honoured": {"cpus": "all"}},
    ):
        row = {**sound, **change}
        assert _compact(compactor, row) == wrong_trial(row) != "", change
        line = json.dumps(row).encode()
        assert compactor.wrong(compactor.parse(line)) == wrong_trial(row), change
    for change in (
        {"error": "cannot log in with --password=hunter2"},
        {"flags": ["PGPASSWORD=hunter2"]},
        {"factors": {"victim": "mytool --password hunter2"}},
        {"neighbours": [{"name": "x", "during": 1.0, "unit": "s", "password": "hunter2"}]},
        {"command": {"argv": ["a", "--token", "hunter2"]}},
    ):
        row = {**sound, **change}
        made = _compact(compactor, copy.deepcopy(row))
        assert isinstance(made, dict)
        assert {**made, "evidence": list(made["evidence"])} == mask_row(row) != row, change


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=40),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ).map(lambda value: json.dumps({"a": value}).encode()),
        st.sampled_from(
            (b"[" * 900 + b"]" * 900, b'{"a":1e999}', b'{"a":1,"a":2}', b"\xef\xbb\xbf{}", b'{"a":-0}')
        ),
    )
)
def test_a_row_holds_what_json_says_whichever_parser_reads_it(
    tmp_path_factory: pytest.TempPathFactory, line: bytes
) -> None:
    if b"\n" in line or b"\r" in line:
        return
    path = tmp_path_factory.mktemp("rows") / "rows.ndjson"
    path.write_bytes(line + b"\n")
    try:
        expected = [document(line)]
    except ValueError:
        expected = []
    assert repr(list(whole_rows(path, lambda _: ""))) == repr(expected)
