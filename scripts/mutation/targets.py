"""What is mutated, and which tests have to notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """A part of the package and the tests that are there for it, both as patterns of paths."""

    name: str
    what: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()

    def code_files(self) -> list[Path]:
        left_out = {path for pattern in self.without for path in ROOT.glob(pattern)}
        return sorted({path for pattern in self.code for path in ROOT.glob(pattern)} - left_out)

    def test_files(self) -> list[Path]:
        found = {path for pattern in self.tests for path in ROOT.glob(pattern)}
        return sorted(
            path
            for path in found
            if path.name.startswith("test_") or ">>> " in path.read_text(encoding="utf-8")
        )


PYTHON = (
    Target(
        "stats",
        "`contend.stats`, without the known answers and their noise, which are tests themselves",
        ("python/contend/stats/*.py",),
        (
            "tests/unit/stats/test_*.py",
            "tests/unit/test_trend.py",
            "tests/unit/studies/sensitivity/test_sensitivity_study.py",
            "tests/unit/serve/test_serve_trend.py",
            "python/contend/stats/*.py",
        ),
        (
            "python/contend/stats/known_*.py",
            "python/contend/stats/*_answers.py",
            "python/contend/stats/noise.py",
        ),
    ),
    Target(
        "advice",
        "`contend.advice`: the rules, findings and assignments",
        ("python/contend/advice/*.py",),
        (
            "tests/unit/advice/test_*.py",
            "tests/unit/test_rules.py",
            "tests/unit/test_*_findings.py",
            "tests/unit/studies/interference/test_crowds.py",
            "tests/unit/test_forecast.py",
            "tests/unit/studies/growth/test_growth_result.py",
            "tests/unit/test_host_sizes.py",
            "tests/unit/studies/overhead/test_network_overhead.py",
            "tests/unit/studies/overhead/test_overheads.py",
            "tests/unit/test_placement*.py",
            "tests/unit/studies/sensitivity/test_sensitivity_study.py",
            "tests/unit/test_storage*.py",
            "tests/golden/report/test_forecast_golden.py",
            "tests/golden/report/test_report_terminal_golden.py",
            "tests/golden/report/test_sweep_golden.py",
            "python/contend/advice/*.py",
        ),
    ),
    Target(
        "plan-ledger",
        "`contend.engine.plan`, `planned`, `cells` and `ledger`: what a run is going to do, and its diary",
        (
            "python/contend/ledger.py",
            "python/contend/engine/plan.py",
            "python/contend/store/planned.py",
            "python/contend/studies/*/cells.py",
        ),
        (  # without those that reach cells by whole runs only, and take most of the time
            "tests/unit/clouds/test_instances.py",
            "tests/unit/test_cells*.py",
            "tests/unit/studies/interference/test_crowds.py",
            "tests/unit/studies/growth/test_growth_result.py",
            "tests/unit/test_ledger*.py",
            "tests/unit/test_overhead_p*.py",
            "tests/unit/studies/placement/test_placement_plan.py",
            "tests/unit/test_plan*.py",
            "tests/unit/studies/storage/test_storage_cloud_study.py",
            "tests/unit/test_store.py",
            "tests/unit/studies/storm/test_storm_result.py",
            "python/contend/studies/*/cells.py",
        ),
    ),
)
