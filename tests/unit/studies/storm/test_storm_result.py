"""A storm study: its cells, and what its storms say together."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from contend.contention.alibi.verdict import CellAlibi
from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.store.cells import PlannedCell, values_of
from contend.studies.scenarios import parse, to_yaml
from contend.studies.storm import words as storm_words
from contend.studies.storm.model import Storm
from contend.studies.storm.plots import storm_plots
from contend.studies.storm.result import Storms, answer, read
from support.intervals import holds


def scenario(text: str, *settings: str) -> Storm:
    found = parse(read_yaml(f"study: storm\n{text}", "mine.yaml", ScenarioError), settings)
    assert isinstance(found, Storm)
    return found


def test_sizes_and_networks_make_cells_with_the_smallest_as_control() -> None:
    asked = scenario("n: [5, 1]\nnetwork: [none, auto]\ncloud: c\nparameters: {rate: 2.5}")
    cells = make_plan(asked, 1).cells
    assert [c.id for c in cells] == [
        "n=1, network none",
        "n=1, network none (control)",
        "n=5, network none",
        "n=1, network auto",
        "n=5, network auto",
    ]
    assert [c.control for c in cells] == [False, True, False, False, False]
    assert {c.baseline for c in cells} == {"", "n=1, network none"}
    parameters = cells[-1].victim.instance.parameters
    assert (parameters["n"], parameters["network"], parameters["cloud"], parameters["rate"]) == (
        5,
        "auto",
        "c",
        2.5,
    )


def test_set_takes_one_size_or_a_list() -> None:
    assert scenario("title: t", "n=[1,5,10,20]").n == (1, 5, 10, 20)
    assert scenario("title: t", "n=7", "network=net").n == (7,)
    again = scenario("n: [3]\nnetwork: auto")
    assert parse(read_yaml(to_yaml(again), "scenario.yaml", ScenarioError)).model_dump() == again.model_dump()


@pytest.mark.parametrize("text", ["n: [0]", "n: []", "platform: container", "parameters: {n: 4}"])
def test_what_is_no_storm_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        scenario(text)


def document(n: int, chance: random.Random, *, network: float = 0.0, **more: Any) -> dict[str, Any]:
    """A batch with 0.2 s a server of one bottleneck: its k-th server is ready after 0.3 + 0.2 k, give or take."""
    times = sorted((0.3 + network + 0.2 * k) * chance.uniform(0.97, 1.03) for k in range(1, n + 1))
    mean = sum(times) / n
    return {
        "n": n,
        "served": n,
        "failed": 0,
        "problems": {},
        "counts": {"requests": 10 * n},
        "disagree": 0,
        "min_s": times[0],
        "median_s": (times[(n - 1) // 2] + times[n // 2]) / 2,
        "p90_s": times[int(0.9 * (n - 1))],
        "max_s": times[-1],
        "makespan_s": times[-1],
        "accepted_s": 0.1,
        "delete_median_s": 0.2,
        "delete_makespan_s": 0.3,
        "width_s": 0.1,
        "client_cpu_s": 0.01 * n,
        "asking_share": 0.2,
        "phases_s": {"api": 0.1, "spawning": mean - 0.1},
        "cpu_s": {"API": 0.1 * n, "database": 0.05 * n},
        "servers": [{"due_s": 0.0, "active_s": [t - 0.05, t + 0.05]} for t in times],
        **more,
    }


def run(
    path: Path, cells: dict[tuple[int, str], float], blocks: int = 8, **more: Any
) -> list[dict[str, Any]]:
    """A run's outputs and rows. cells: by size and network, what that network adds."""
    chance, rows = random.Random(5), []
    for block in range(blocks):
        for (n, network), added in cells.items():
            trial = len(rows)
            place = path / "outputs" / f"{trial:06d}"
            place.mkdir(parents=True)
            (place / "storm.json").write_text(json.dumps(document(n, chance, network=added, **more)))
            label = f"n={n}, network {network}"
            rows.append(
                {
                    "trial": trial,
                    "block": block,
                    "phase": "counted",
                    "status": "ok",
                    "cell": label,
                    "factors": {"n": str(n), "network": network, "variant": label},
                }
            )
    return rows


def cells(rows: list[dict[str, Any]]) -> list[PlannedCell]:
    factors = {row["cell"]: row["factors"] for row in rows}
    return [PlannedCell(cell, of, "", control=False, values=values_of(of)) for cell, of in factors.items()]


def found(path: Path, rows: list[dict[str, Any]], **more: Any) -> Storms:
    storms = read(path, rows, cells(rows), **more)
    assert storms is not None
    return storms


def test_what_each_server_adds_is_found(tmp_path: Path) -> None:
    storms = found(tmp_path, run(tmp_path, {(n, "none"): 0.0 for n in (1, 5, 10, 20)}))
    law = storms.growth["none"].law
    assert law.makespan.slope.value == pytest.approx(0.2e9, rel=0.03)
    assert law.median.slope.value == pytest.approx(0.1e9, rel=0.03)
    assert [size.n for size in storms.sizes] == [1, 5, 10, 20]
    assert all(size.storms == 8 for size in storms.sizes)
    assert storms.sizes[3].cpu == pytest.approx({"API": 0.1, "database": 0.05})
    assert storms.sizes[3].cpu_per_boot == pytest.approx(0.15)
    parts = sum(growth.line.slope.value for growth in storms.growth["none"].parts)
    assert parts == pytest.approx(storms.growth["none"].mean.slope.value), "phases add up to the growth"
    assert answer(storms).startswith("Each extra server adds 0.1 s [")


def test_networks_are_compared_within_blocks(tmp_path: Path) -> None:
    rows = run(tmp_path, {(n, w): a for n in (2, 8) for w, a in (("none", 0.0), ("auto", 0.6))})
    storms = found(tmp_path, rows)
    first, second, estimate = storms.networks[2]
    assert (first, second) == ("none", "auto")
    assert holds(estimate, (0.9 + 0.3) / 0.6)
    assert list(storms.growth) == ["none", "auto"]
    assert "network auto takes" in storm_words.networks(storms)[0]


def test_a_size_of_which_only_the_control_ran_is_not_compared_yet(tmp_path: Path) -> None:
    """Of a run that was interrupted in its first block."""
    rows = run(tmp_path, {(2, "none"): 0.0, (2, "auto"): 0.6}, 1)
    control = f"{rows[0]['cell']} (control)"
    planned = [*cells(rows), replace(cells(rows)[0], id=control, baseline=rows[0]["cell"], control=True)]
    rows[0]["cell"] = control
    storms = read(tmp_path, rows, planned)
    assert storms is not None and storms.networks == {}
    assert [(size.network, size.storms) for size in storms.sizes] == [("auto", 1), ("none", 1)]
    assert [storm_words.row(size, storms)[0] for size in storms.sizes] == ["2, auto", "2, none"]
    assert [plot.table[0][0] for plot in storm_plots(storms)] == ["n = 2, network auto"] * 2


def test_storms_sent_at_a_rate_are_no_batch(tmp_path: Path) -> None:
    rows = run(tmp_path, {(4, "none"): 0.0, (8, "none"): 0.0})
    for row in rows:
        file = tmp_path / "outputs" / f"{row['trial']:06d}" / "storm.json"
        told = json.loads(file.read_text())
        for k, server in enumerate(told["servers"]):
            server["due_s"], server["active_s"] = 2.0 * k, [2.0 * k + 0.5, 2.0 * k + 0.6]
        file.write_text(json.dumps(told))
    storms = found(tmp_path, rows)
    assert storms.growth == {}
    assert answer(storms).startswith("8 at once take ")


def test_what_went_wrong_is_told(tmp_path: Path) -> None:
    counts = {"requests": 100, "rate limited (429)": 3}
    problems = {"ERROR: No valid host": 1}
    storms = found(
        tmp_path, run(tmp_path, {(4, "none"): 0.0}, 2, counts=counts, problems=problems, disagree=1)
    )
    assert storm_words.troubles(storms) == [
        "2 servers: ERROR: No valid host",
        "6 of 200 requests: rate limited (429)",
    ]
    assert "2 servers' own stamps contradict" in storm_words.precision(storms)


def test_a_run_without_storms_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, [], []) is None


def test_the_table_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    from contend.report.printer import Printer
    from contend.studies.storm.terminal import show_storms

    storms = found(tmp_path, run(tmp_path, {(n, "none"): 0.0 for n in (1, 20)}))
    console = Console(width=80, record=True, no_color=True, force_terminal=False)
    analysis: Any = type("Analysis", (), {"result": storms, "alibis": ()})
    show_storms(analysis, storms, Printer(console))
    text = console.export_text()
    assert "Request → ACTIVE, s: medians over 8 storms a size [95%]" in text
    assert any(
        line.split()[:2] == ["20", f"{storms.sizes[1].levels['median'].value:.2f}"]
        for line in text.splitlines()
    )
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_full_machine_takes_the_line_back_and_an_idle_one_names_the_wait(tmp_path: Path) -> None:
    storms = found(tmp_path, run(tmp_path, {(n, "none"): 0.0 for n in (1, 5, 20)}))
    cell = storms.sizes[-1].cell

    def said(verdict: str, subject: str) -> str:
        alibi = CellAlibi(cell, {}, verdict, subject, 8, 8, "")
        analysis: Any = type("Analysis", (), {"result": storms, "alibis": (alibi,)})
        return storm_words.limit(analysis)

    assert said("idle", "").startswith(
        "The hardware was idle (n = 20), so it is the software that boots wait in: 0.20"
    )
    assert "a full machine draws such a line too" in said("cpu", "all 2 CPUs")
    nothing: Any = type("Analysis", (), {"result": storms, "alibis": ()})
    assert storm_words.limit(nothing) == ""


def test_machines_of_this_host_are_called_what_they_are(tmp_path: Path) -> None:
    """Their cost is compared with what each adds: 0.15 CPU-s on two CPUs of a makespan's 0.2 s each."""
    more = {"awaited": "served", "running_s": 0.25}
    rows = run(tmp_path, {(n, "none"): 0.0 for n in (1, 5, 10, 20)}, **more)
    for row in rows:
        row["factors"]["platform"] = "micro-VM (emulated)"
    (tmp_path / "environment.json").write_text('{"cpus": 2}')
    storms = found(tmp_path, rows, noun="micro-VM")
    assert (storms.noun, storms.awaited) == ("micro-VM", "served")
    assert "emulated" in answer(storms)
    assert storm_words.about(storms).startswith("micro-VM (emulated): request → served, s: ")
    assert storm_words.headers(storms)[:3] == ("n", "running", "median")
    assert "client CPU" not in storm_words.about(storms), "a terminal has no room for it"
    assert storm_words.about(storms, whole=True).endswith("; engine CPU of one boot, client CPU of one storm")
    assert len(storm_words.row(storms.sizes[0], storms, whole=True)) == len(
        storm_words.headers(storms, whole=True)
    )
    assert len(storm_words.row(storms.sizes[0], storms)) == len(storm_words.headers(storms))
    assert storm_words.row(storms.sizes[0], storms)[1] == "0.25"
    assert "each extra micro-VM adds 0.1" in storm_words.growth(storms)[0]
    alibi = CellAlibi(storms.sizes[-1].cell, {}, "cpu", "all 2 CPUs", 8, 8, "")
    analysis: Any = type("Analysis", (), {"result": storms, "alibis": (alibi,)})
    said = storm_words.limit(analysis)
    assert "One costs 0.150 CPU-s of its makers, on 2 CPUs 0.075 s: 3" in said
    assert said.endswith("% of what each adds to the makespan.")
