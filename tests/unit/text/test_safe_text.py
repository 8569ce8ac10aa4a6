"""Text leaves contend masked and escaped, whoever prints it."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import contend
from contend.report.html import script_json, templates
from contend.report.plotkit import VEGA_LITE
from contend.report.vega import drawable
from contend.text.safe import SafeStream, plain, safe_console, write_json

SECRET = "Zq7hunter2K"


def test_a_print_is_masked_and_escaped_when_its_line_ends() -> None:
    below = io.StringIO()
    stream = SafeStream(below)
    print("tool --token", SECRET, "\x1b]0;owned\x07", file=stream)
    print("half a line", end="", file=stream)
    assert below.getvalue() == "tool --token *** \\x1b]0;owned\\x07\n"
    stream.flush()
    assert below.getvalue().endswith("half a line")
    with pytest.raises(TypeError):
        stream.write(b"")  # type: ignore[arg-type]


def test_what_contend_draws_goes_below_in_the_order_it_was_written() -> None:
    below = io.StringIO()
    stream = SafeStream(below)
    stream.write("first ")
    plain(stream).write("\x1b[2Ksecond")
    assert below.getvalue() == "first \x1b[2Ksecond"
    assert plain(below) is below


def test_a_console_masks_cells_and_lines_and_keeps_its_colours() -> None:
    below = io.StringIO()
    console = safe_console(file=below, width=100, force_terminal=True)
    table = Table("name\x1b[2J", "other")
    table.add_row(f"--password={SECRET}", Text("a\x07b\u202e", style="bold"))
    console.print(table)
    console.print(f"curl -u me:{SECRET}", markup=False)
    text = below.getvalue()
    assert SECRET not in text
    assert "--password=***" in text
    assert "\x1b[2J" not in text
    assert "\x1b[1m" in text, "the style"


def test_json_on_stdout_is_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", SafeStream(sys.stdout))
    write_json({"argv": ["a", "--token", SECRET], "n": [1.5, 2]})
    assert json.loads(capsys.readouterr().out) == {"argv": ["a", "--token", "***"], "n": [1.5, 2]}


def test_charts_hold_neither() -> None:
    import vl_convert

    bad = {"mark": "text", "title": f"a\x1bb --password={SECRET}", "data": {"values": [{"x": "\ud800\x00"}]}}
    vl_convert.vegalite_to_svg(drawable(bad), vl_version=VEGA_LITE)  # of the spec as it was, the process ends
    assert SECRET not in script_json(drawable(bad))
    fine = {"title": "é · 😀"}
    assert drawable(fine) == fine


def test_a_name_that_may_be_broken_is_safe_too() -> None:
    line = templates().from_string("{{ name | breakable(before=':') }} {{ name }}")
    assert line.render(name="<\x1b]0;owned\x07:7") == "&lt;\\x1b]0;owned\\x07<wbr>:7 &lt;\\x1b]0;owned\\x07:7"
    assert SECRET not in line.render(name=f"tool --token {SECRET}")


def test_no_template_escapes_by_hand() -> None:
    """What is marked as escaped goes past the masking, and past control characters."""
    found = [
        f"{path.name}: {use}"
        for path in Path(contend.__file__).parent.rglob("*.j2")
        for use in re.findall(r"\|\s*(?:e|escape|forceescape)\b.*", path.read_text(encoding="utf-8"))
    ]
    assert found == []
