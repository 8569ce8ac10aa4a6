"""The card to share, and what readers of hyperfine's files get."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from contend.report import card
from contend.report.benchmark_export import render
from support.report_samples import compare_study, hostile, interference, too_few

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [str(node.text) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("made", [interference, compare_study, too_few, hostile])
def test_a_card_is_whole_and_within_its_edges(made: object) -> None:
    report = made()  # type: ignore[operator]
    svg = card.card(report)
    root = ElementTree.fromstring(svg)
    assert (root.get("width"), root.get("height")) == ("1200", "630")
    for node in root.iter():
        for key in ("x", "x1", "x2"):
            assert 0 <= float(node.get(key, "0")) <= card.WIDTH, ElementTree.tostring(node)
        for key in ("y", "y1", "y2"):
            assert 0 <= float(node.get(key, "0")) <= card.HEIGHT, ElementTree.tostring(node)
    shown = texts(svg)
    assert any(text.startswith("$ ") for text in shown)
    assert "\x1b" not in svg


def test_it_says_the_answer_and_the_largest_effects() -> None:
    report = interference()
    shown = texts(card.card(report))
    assert report.analysis.answer.split()[0] in " ".join(shown)
    assert sum(bool(re.match(r"\d+\.\d+× ", text)) for text in shown) == card.MOST_ROWS


def test_it_is_a_picture(tmp_path: Path) -> None:
    card.save_card(interference(), tmp_path / "card.png")
    assert (tmp_path / "card.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    card.save_card(interference(), tmp_path / "card.svg")
    assert (tmp_path / "card.svg").read_text().startswith("<svg")


def test_results_as_hyperfine_has_them() -> None:
    report = compare_study()
    found = json.loads(render(report, "json"))["results"]
    assert len(found) > 1
    first, second = found[:2]
    assert set(first) >= {"command", "mean", "stddev", "median", "min", "max", "times"}
    assert first["ratio"] is None
    assert second["ratio"]["low"] <= second["ratio"]["value"] <= second["ratio"]["high"]
    assert first["min"] <= first["median"] <= first["max"]
    assert render(report, "csv").splitlines()[0] == "command,mean,stddev,median,user,system,min,max"
    assert render(report, "markdown").startswith("| command | mean | min | max | relative |\n")


def test_few_trials_are_exported_without_an_interval() -> None:
    """JSON has no number for an interval without an end, as after -n 3."""
    report = compare_study()
    cells = [
        replace(cell, estimate=replace(cell.estimate, low=0.0, high=math.inf))
        for cell in report.analysis.cells
    ]
    few = replace(report, analysis=replace(report.analysis, cells=tuple(cells)))
    ratio = json.loads(render(few, "json"))["results"][1]["ratio"]
    assert ratio["high"] is None and ratio["low"] == 0 and ratio["value"] > 0
    assert "| " in render(few, "markdown")
