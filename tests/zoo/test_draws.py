"""Programs of the zoo: how they are drawn."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict

import pytest

from zoo.campaign import chosen
from zoo.draws import POPULATIONS, draw
from zoo.harness import Storm
from zoo.manifest import from_json
from zoo.mechanisms import FLAVOURS, mechanisms


def test_the_same_seed_draws_the_same_program_and_another_population_another_one() -> None:
    for seed in range(40):
        development, acceptance = (draw(seed, population) for population in POPULATIONS)
        assert development == draw(seed, "development")
        assert development.source != acceptance.source


def test_every_program_parses_and_its_manifest_survives_json() -> None:
    for seed in range(150):
        manifest = draw(seed, "development")
        ast.parse(manifest.source)
        assert 20 <= len(manifest.source.splitlines()) <= 130, manifest.source
        assert 1 <= len(manifest.mechanisms) <= 3
        assert 10 <= manifest.jobs <= 60
        assert from_json(json.loads(json.dumps(asdict(manifest)))) == manifest


SOURCE = {
    "hold": 'run.hold("{}")',
    "remove": 'run.keeps("{}")',
    "workers": 'run.workers("{}", ',
    "size": 'run.size("{}", ',
    "coalesce": 'run.batch("{}")',
    "global": 'run.one_queue("{}")',
    "jobs": "run.sizes{}",
}
"""How a program does the edits of a kind."""


def test_a_program_does_each_of_its_edits() -> None:
    for seed in range(300):
        manifest = draw(seed, "development")
        switches = [change.switch for change in manifest.changes]
        assert len(set(switches)) == len(switches)
        for switch in switches:
            kind, _, rest = switch.partition(":")
            assert SOURCE[kind].format(rest.partition("=")[0]) in manifest.source, switch


def test_edits_of_mechanisms_are_tried_more_often_than_those_of_every_program() -> None:
    own = others = 0
    for seed in range(300):
        manifest = draw(seed, "development")
        known = [change for change in manifest.changes if change.exists]
        assert sorted(change.switch for change in chosen(manifest, 0)) == sorted(
            each.switch for each in known
        )
        for change in chosen(manifest, 1):
            assert change in known
            if len({each.general for each in known}) == 2:
                own, others = own + (not change.general), others + change.general
    assert own > 2 * others > 20


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("plain", (1.0, True, 3, 2, 1, False, 4)),
        ("hold:stock=0.5", (0.5, True, 3, 2, 1, False, 4)),
        ("remove:stock=", (1.0, False, 3, 2, 1, False, 4)),
        ("workers:stock=8", (1.0, True, 8, 2, 1, False, 4)),
        ("size:stock=5", (1.0, True, 3, 5, 1, False, 4)),
        ("coalesce:stock=6", (1.0, True, 3, 2, 6, False, 4)),
        ("global:stock=", (1.0, True, 3, 2, 1, True, 4)),
        ("jobs:=9", (1.0, True, 3, 2, 1, False, 9)),
        ("hold:other=0.5", (1.0, True, 3, 2, 1, False, 4)),
    ],
)
def test_a_switch_changes_what_it_names_and_nothing_else(switch: str, expected: tuple[object, ...]) -> None:
    storm = Storm(switch, [1, 1, 2, 2])
    name = "stock"
    numbers = (storm.workers(name, 3), storm.size(name, 2), storm.batch(name))
    assert (
        storm.hold(name),
        storm.keeps(name),
        *numbers,
        storm.one_queue(name),
        len(storm.sizes),
    ) == expected


def test_mechanisms_can_be_left_out_or_required() -> None:
    for seed in range(60):
        assert "plain_lock" not in draw(seed, "development", without=["plain_lock"]).mechanisms
    assert draw(3, "development", only=["two_locks", "plain_lock"]).mechanisms == ("plain_lock", "two_locks")
    with pytest.raises(ValueError, match="no program can have all of closed_loop, green_pool"):
        draw(3, "development", only=["closed_loop", "green_pool"])
    with pytest.raises(ValueError, match="no population"):
        draw(3, "elsewhere")


def test_each_mechanism_is_drawn_often_enough_and_says_what_it_is() -> None:
    drawn = [draw(seed, "development").mechanisms for seed in range(len(mechanisms()) * 20)]
    for name, mechanism in mechanisms().items():
        assert sum(name in names for names in drawn) >= 8, name
        assert 10 < len(mechanism.about) <= 130 and "\n" not in mechanism.about
        assert set(mechanism.flavours) <= set(FLAVOURS)


def test_what_a_job_does_itself_is_not_lost() -> None:
    storm = Storm("plain", [1])
    since = storm.clock() - 50_000_000
    storm.lost("pool", since, own=0.03)
    storm.lost("pool", since, own=10.0)
    (_, first), (_, second) = storm.losses
    assert 20_000_000 <= first < 10_000_000_000 and second == 0


def test_what_a_forked_server_would_not_have_is_not_beside_it() -> None:
    for seed in range(300):
        names = draw(seed, "development").mechanisms
        apart = mechanisms()["web_gunicorn"].not_with if "web_gunicorn" in names else ()
        assert not set(names) & set(apart), names
    with pytest.raises(ValueError, match="no program can have all of"):
        draw(1, "development", only=["web_gunicorn", "lifo_queue"])
