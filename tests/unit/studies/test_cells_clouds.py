"""Cells of storms and growths, and what is checked of a cloud before anything is made there."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import BadInput, CannotHonour, ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.model import Scenario
from contend.studies.registry import cells_of
from contend.studies.scenarios import load, parse
from contend.studies.storage.cloud_cells import check
from contend.studies.storage.model import Storage


def scenario(text: str, *settings: str) -> Scenario:
    return parse(read_yaml(text, "mine.yaml", ScenarioError), settings)


def test_every_storm_is_compared_with_the_smallest_of_the_first_network() -> None:
    cells = cells_of(scenario("study: storm\nn: [5, 1, 5]\nnetwork: [none, auto, none]\ncloud: c"))
    first = "n=1, network none"
    assert {cell.id: cell.baseline for cell in cells} == {
        first: "", f"{first} (control)": first, "n=5, network none": first, "n=1, network auto": first,
        "n=5, network auto": first,
    }  # fmt: skip
    assert [cell.factors["n"] for cell in cells] == ["1", "1", "5", "1", "5"]
    control = cells[1]
    assert control.control and control.factors["variant"] == f"{first} (control)"
    assert control.victim == cells[0].victim


def test_one_network_is_no_part_of_a_storm_s_name() -> None:
    cells = cells_of(scenario("study: storm\nn: [2, 1]\nnetwork: [none]\ncloud: c"))
    assert [cell.id for cell in cells] == ["n=1", "n=1 (control)", "n=2"]


@pytest.mark.parametrize(
    ("kinds", "budget", "within"),
    [("[network]", "1000s", 900.0), ("[network, port]", "1000s", 450.0), ("[network, network]", "1000s", 900.0),
     ("[network]", "10s", 30.0)],
)  # fmt: skip
def test_a_pass_over_a_population_gets_its_part_of_the_budget_and_no_less_than_a_slope_needs(
    kinds: str, budget: str, within: float
) -> None:
    text = f"study: growth\nkinds: {kinds}\ncloud: c\nmodes: [quiet]\nmeasure: {{blocks: 1, most: 1, target: null}}"
    cells = cells_of(scenario(text, f"measure.budget={budget}"))
    assert {cell.victim.instance.parameters["within"] for cell in cells} == {within}
    assert all(cell.baseline == "" and not cell.control for cell in cells)


def test_an_ssh_configuration_has_to_be_there_before_instances_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds, config = tmp_path / "clouds.yaml", tmp_path / "ssh_config"
    clouds.write_text("clouds: {c: {auth: {auth_url: 'http://192.0.2.1/'}}}\n", encoding="utf-8")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))

    def asked(*settings: str) -> Storage:
        found = load("storage-sweep", ("cloud=c", "pools=[ssd]", *settings))
        assert isinstance(found, Storage)
        return found

    check(asked())
    with pytest.raises(CannotHonour, match="there is no OpenSSH configuration"):
        check(asked(f"parameters.ssh_config={config}"))
    config.write_text("Host *\n", encoding="utf-8")
    check(asked(f"parameters.ssh_config={config}"))
    with pytest.raises(BadInput):
        check(asked("cloud=another"))
