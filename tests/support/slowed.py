"""Results of a victim that is slowed, by the evidence of it beside a neighbour and alone."""

from __future__ import annotations

from dataclasses import replace

from contend.document import CellResult, Level, MetricInfo
from contend.errors import ScenarioError
from contend.probes.observed import Observations
from contend.scenario.yaml_file import read_yaml
from contend.stats.estimate import Estimate
from contend.store.cells import Application, Values
from contend.studies.interference.model import Interference
from contend.studies.model import Scenario
from contend.studies.scenarios import parse

METRIC = MetricInfo("wall", "s", "lower", "", True)
ESTIMATE = Estimate(2.0, 1.9, 2.1, "ratio", 10, 0.95, "HL", "higher")
LEVEL = Level(ESTIMATE, (1.0,), (0,), ())
DISK = {"wall": 1.0, "disk_await": 1.0, "disk_iops": 4000.0, "disk_queue": 4.0}
REPEAT = "contend run mine.yaml"
WAITED = {"wall": 2.0, "own_psi_cpu": 0.8}, {"wall": 1.0, "own_psi_cpu": 0.0}


def cell(
    now: dict[str, float], before: dict[str, float], slowdown: float = 2.0, **more: object
) -> CellResult:
    estimate = replace(ESTIMATE, value=slowdown, low=0.95 * slowdown, high=1.05 * slowdown)
    seen, alone = (Observations({name: (value, "s") for name, value in of.items()}) for of in (now, before))
    factors = {"victim": "fio", "neighbour": "stress-cpu"}
    made = CellResult("fio|stress-cpu", factors, METRIC, LEVEL, LEVEL, estimate, seen, alone)
    beside = Values(Application("fio"), (Application("stress-cpu"),))
    return replace(made, values=beside, **more)  # type: ignore[arg-type]


def stolen(least: float, most: float | None = None, steal: float = 0.0) -> dict[str, float]:
    """Evidence of a hypervisor that took so much of a victim's time, and from whoever was there."""
    return {"steal": steal or least, "stolen_least": least, "stolen_most": least if most is None else most}


def study(placement: str = "same-cpu", **more: str) -> Interference:
    text = (
        f"study: interference\nvictims: {more.get('victims', '[fio]')}\nneighbours: [stress-cpu, fio]\n"
        f"placement: {placement}\nmeasure: {{blocks: 6, target: null}}\n"
    )
    made: Scenario = parse(read_yaml(text, "mine.yaml", ScenarioError))
    assert isinstance(made, Interference)
    return made


def expected(slowdown: float, here: float, counted: float, alone: float, base: float) -> float:
    """Of a second of work alone S seconds are needed now; so much of the S - 1 lost ones is the growth of this time."""
    return (slowdown * here / counted - alone / base) / (slowdown - 1)
