"""What draws charts comes with contend: no page needs vl-convert, 85 MB of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contend.errors import HostFailed
from contend.report.html import render_html
from contend.report.plots import save_plots
from contend.report.vega import embedded, packed, vega_runtime
from support import report_samples as samples


def test_the_program_can_stand_inside_a_page() -> None:
    program = vega_runtime()
    assert len(program) > 500_000
    assert program.startswith("/* Vega, Vega-Lite and vega-embed, bundled by vl-convert ")
    assert "</script" not in program and "<!--" not in program
    assert "window.vegaEmbed" in program


def test_a_contend_that_was_built_without_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    with pytest.raises(HostFailed) as failed:
        vega_runtime()
    assert failed.value.hint == "make setup builds a checkout whole"


def test_pages_need_no_extra_and_plots_as_files_say_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    report = samples.interference(tmp_path)
    assert "window.vegaEmbed" in render_html(report)
    with pytest.raises(HostFailed) as failed:
        save_plots(report, tmp_path / "plots")
    assert "contend[plots]" in failed.value.hint
    assert not (tmp_path / "plots").exists()


def test_rows_that_several_layers_or_charts_show_stand_once() -> None:
    rows = [{"x": 1}, {"x": 2}]
    spec = {
        "data": {"values": rows},
        "layer": [{"data": {"values": list(rows)}}, {"data": {"values": [{"y": 1}]}}],
    }
    other = {"data": {"values": list(rows)}}
    assert embedded({"a": spec, "b": other}) == {
        "charts": {
            "a": {
                "data": {"name": "rows-0"},
                "layer": [{"data": {"name": "rows-0"}}, {"data": {"name": "rows-1"}}],
                "datasets": ["rows-0", "rows-1"],
            },
            "b": {"data": {"name": "rows-0"}, "datasets": ["rows-0"]},
        },
        "rows": {"rows-0": packed(rows), "rows-1": packed([{"y": 1}])},
    }
    assert spec["data"]["values"] is rows, "the spec itself is as it was"
