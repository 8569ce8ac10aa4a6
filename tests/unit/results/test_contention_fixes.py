"""The fixes that bench/contention_fixes.py measures: what their files say, and the page of a result."""

from __future__ import annotations

import ast
import asyncio
import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from contention_fixes.catalogue import FIXES, fixes, read
from contention_fixes.support.loopback import connect_lines, serve_http, serve_lines
from contention_fixes.support.storm_of_jobs import as_tasks, in_threads
from results.pages import contention_fixes as page

FIX = {
    "project": "thing", "before": ["thing==1"], "after": ["thing==2"], "link": "https://example.org",
    "did": "a lock is let go", "edit": ["--hold", "lock=0"], "fits": "exact",
}  # fmt: skip


def written(place: Path, **changed: object) -> Path:
    path = place / "thing_lock.py"
    path.write_text(f"import nothing_of_the_kind\n\nFIX = {FIX | changed!r}\n", encoding="utf-8")
    return path


def test_a_file_is_read_without_being_imported(tmp_path: Path) -> None:
    fix = read(written(tmp_path, also=["other<2"]))
    assert fix.name == "thing_lock" and fix.edit == ("--hold", "lock=0")
    assert fix.requirements("before") == ("thing==1", "other<2")
    assert fix.requirements("after") == ("thing==2", "other<2")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"wrong": 1}, "unknown keys"),
        ({"fits": "perhaps"}, "exact or nearest"),
        ({"edit": []}, "exact or nearest"),
        ({"fits": "none fits: a poll"}, "exact or nearest"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        read(written(tmp_path, **changed))
    assert "thing_lock.py" in str(raised.value)


def test_each_fix_is_of_two_versions_that_differ_and_is_none_of_a_module_that_it_imports() -> None:
    """The folder of a program comes first on its path: a file called as a module would hide it."""
    assert len(fixes()) >= 10
    for name, fix in fixes().items():
        assert fix.before != fix.after and fix.link.startswith("https://"), name
        imported = {
            alias.name if isinstance(node, ast.Import) else str(node.module)
            for node in ast.walk(ast.parse((FIXES / f"{name}.py").read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not {module.partition(".")[0] for module in imported} & set(fixes()), name


def row(said: float | None, **changed: Any) -> dict[str, Any]:
    """Of a fix that halved the median; `said` is the predicted ratio, None a refusal."""
    answer = {"trusted": said is not None, "reason": None if said else "3.1% off", "fixes": []}
    answer["ratio"] = {"median": [said or 1.0, 0.9, 1.1]}
    if said is not None:
        answer["fixes"] = [
            {"edits": [f"--{word}"], "ratio": [0.7, 0.6, 0.8]} for word in ("workers a=2", "hold lock=0.5")
        ]
    ratio = {"median": [0.5, 0.48, 0.53]}
    return FIX | {"measured": {"ratio": ratio, "reached": True}, "edited": answer, "ranked": answer} | changed


def test_the_page_counts_what_was_trusted_and_what_was_off() -> None:
    rows = [
        row(0.52),
        row(1.0),
        row(None),
        row(0.5, fits="nearest: beside the lock"),
        row(0.5, edited=None, edit=[]),
    ]
    text = " ".join(page.body({"rows": rows, "traces": 4}).split())
    assert "**No edit fits**: 1 of 5" in text
    assert "**Trusted**: 3 of 4 edits; 2 of them are exactly" in text
    assert "1 of 3; of those that are exact 1 of 2" in text
    assert "**Inside**: 0 of 3" in text
    assert "**Named unasked**: 3 of 4 edits" in text and "0 as the first" in text
    assert "**Refused**, though with a figure: 1, of which 1" in text
    assert "[thing 1 → 2](https://example.org)" in text and "`--hold lock=0`; exact" in text
    assert "+100 %" in text and "refused: 1.00" in text and "refused: 3.1% off" in text


def test_a_suggestion_is_of_the_same_kind_and_thing() -> None:
    assert page.place(row(0.5)) == 2
    assert page.place(row(0.5, edit=["--hold", "lo*=0"])) == 2
    assert page.place(row(0.5, edit=["--hold", "other=0"])) is None
    assert page.place(row(0.5, edit=["--remove", "lock"])) is None


def test_a_prediction_within_the_measured_interval_is_not_off() -> None:
    assert not page.off(row(0.53)) and not page.off(row(0.476)) and page.off(row(0.45))


def test_a_storm_of_threads_tells_the_time_of_each_job(capsys: pytest.CaptureFixture[str]) -> None:
    beside = threading.Barrier(4)
    in_threads(lambda number: (beside.wait(10), time.sleep(0.01 * (number == 2))), 4)
    said = json.loads(capsys.readouterr().out)
    assert len(said["durations_s"]) == 4 and max(said["durations_s"]) == said["durations_s"][2] >= 0.01
    assert said["makespan_s"] >= 0.01


def test_a_storm_of_tasks_that_loses_a_job_is_an_error() -> None:
    async def job(number: int) -> None:
        if number == 1:
            raise OSError("the server is gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(as_tasks(job, 3))


def test_servers_answer_line_by_line_and_path_by_path() -> None:
    with connect_lines(serve_lines(lambda _, line: line.upper() + b"\n")) as ask:
        assert [ask(b"one"), ask(b"two")] == [b"ONE", b"TWO"]
    peer = http.client.HTTPConnection(
        "127.0.0.1", serve_http(lambda _: 0, str.encode, at_once=False), timeout=10
    )
    for path in ("/a", "/b"):
        peer.request("GET", path)
        assert peer.getresponse().read() == path.encode()
    peer.close()
