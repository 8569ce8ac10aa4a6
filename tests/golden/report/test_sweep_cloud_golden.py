"""What people see of a sweep on a cloud: its dry run, the template that Heat would get, and its report, of volumes made up.
`CONTEND_GOLDEN=write pytest tests/golden` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.clouds.instances import heat
from contend.engine.plan import make_plan
from contend.report.terminal import render
from contend.studies.scenarios import load
from contend.studies.storage import duration as forecast
from contend.studies.storage import pools
from contend.studies.storage.cloud_cells import topology_of
from contend.studies.storage.model import Storage
from support.made_sweeps import TEXT, made_report

HERE = Path(__file__).parent
STOOD = {
    "hosts": {"measured": "compute-1", "neighbour": "compute-2"},
    "emulated": False,
    "backends": {"fast": "cinder@rbd#rbd", "slow": "cinder@lvm#lvm"},
    "apart": {},
}


def same(name: str, text: str) -> None:
    golden = HERE / name
    if os.environ.get("CONTEND_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def on_cloud(*settings: str) -> Storage:
    asked = load("storage-sweep", ("cloud=mycloud", "pools=[ssd,hdd]", "measure.seed=1", *settings))
    assert isinstance(asked, Storage)
    return pools.fitted(asked, HERE)[0]


def test_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text("clouds: {mycloud: {auth: {auth_url: 'http://192.0.2.1/'}}}\n", encoding="utf-8")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    scenario = on_cloud()
    same("sweep-cloud-plan.txt", "\n".join(forecast.lines(scenario, make_plan(scenario, 1), tmp_path)) + "\n")


def test_template() -> None:
    topology, _ = topology_of(on_cloud("parameters.neighbour_host=different", "parameters.external=public"))
    same("sweep-cloud-stack.yaml", heat.text(heat.template(topology, "contend-RUN", "RUN")))


def test_report(tmp_path: Path) -> None:
    text = TEXT.replace("{name: fast, direct: true}", "{name: fast, volume_type: ssd}")
    text = text.replace("{name: slow, direct: true}", "{name: slow, volume_type: hdd}")
    made = made_report(tmp_path, text=f"cloud: mycloud\n{text}", event=STOOD)
    same("sweep-cloud-80.txt", render(made, width=80, verbose=False))
