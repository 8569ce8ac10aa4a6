"""What a report says of pairs of instances on a cloud: what guests count is theirs, and of hosts nothing is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.report.html import render_html
from contend.studies.placement import map as placement_map
from contend.studies.placement import words as placement_words
from contend.studies.placement.result import Placements
from support.made_placement import TEXT, MadePlacement


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadePlacement:
    place: Path = tmp_path_factory.mktemp("placement")
    return MadePlacement(place, text=TEXT + "cloud: mine\nencapsulation: none\n")


@pytest.fixture(scope="module")
def found(made: MadePlacement) -> Placements:
    placement = made.analyse().result
    assert placement is not None
    return placement


def test_effects_are_found_between_instances_too(found: Placements) -> None:
    ours = {
        e.kind: e.ratio for e in found.effects if e.conditions == found.first and e.metric == "throughput"
    }
    assert set(ours) == {"host", "subnet", "interaction"}
    assert ours["host"].verdict == ours["subnet"].verdict == "lower"
    assert not ours["host"].excludes(0.8 * (0.88 / 0.91) ** 0.5)
    assert "guests_cpu_per_gb" in {e.metric for e in found.effects}


def test_what_only_hosts_could_tell_is_not_claimed(found: Placements) -> None:
    assert found.ends == "instances of a cloud"
    assert found.added == (), "CPU time of routing and encapsulation is that of hosts"
    assert placement_map.pictures(found) == []
    assert "both guests" in placement_words.cpu_about(found)
    assert "namespaces" not in placement_words.label(found)
    assert {path[0] for path in (placement_words.path(p, found.ends) for p in found.routes)} == {"client"}


@pytest.mark.parametrize("wide", [True, False])
def test_tables_have_a_value_a_column(found: Placements, wide: bool) -> None:
    headers = placement_words.headers(found, found.first, wide=wide)
    cpu = headers.index("CPU s/GB")
    for row in placement_words.rows(found, found.first, wide=wide):
        assert len(row) == len(headers)
        assert float(row[cpu]) > 0.5
    headers = placement_words.effect_headers(found, wide=wide)
    assert "CPU s/GB" in headers
    assert {len(row) for row in placement_words.effect_rows(found, wide=wide)} == {len(headers)}


def test_emulated_instances_are_said_to_be(found: Placements) -> None:
    assert any(note.startswith("emulated") for note in placement_words.notes(found))


def test_the_page_is_made(made: MadePlacement) -> None:
    page = render_html(made.report())
    assert "instances of a cloud" in page and "both guests" in page
    assert "hosts here are namespaces" not in page
