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
        return sorted(_matches(self.code) - _matches(self.without))

    def test_files(self) -> list[Path]:
        return sorted(
            path
            for path in _matches(self.tests)
            if path.name.startswith("test_") or ">>> " in path.read_text(encoding="utf-8")
        )


def _matches(patterns: tuple[str, ...]) -> set[Path]:
    """Raises ValueError for a pattern without a match: what has moved would silently be left out."""
    found: set[Path] = set()
    for pattern in patterns:
        if not (paths := set(ROOT.glob(pattern))):
            raise ValueError(f"nothing matches {pattern}")
        found |= paths
    return found


PYTHON = (
    Target(
        "stats",
        "`contend.stats`",
        ("python/contend/stats/*.py",),
        (
            "tests/unit/stats/test_*.py",
            "tests/unit/stats/test_trend.py",
            "tests/unit/studies/sensitivity/test_sensitivity_study.py",
            "tests/unit/serve/test_serve_trend.py",
            "python/contend/stats/*.py",
        ),
    ),
    Target(
        "advice",
        "`contend.advice` and what each study advises: the rules, findings and assignments",
        (
            "python/contend/advice/*.py",
            "python/contend/studies/causes/*.py",
            "python/contend/studies/*/findings.py",
            "python/contend/studies/*/*_findings.py",
            "python/contend/studies/compare/downloads.py",
            "python/contend/studies/overhead/practices.py",
            "python/contend/studies/placement/claims.py",
            "python/contend/studies/sensitivity/assignment.py",
        ),
        (
            "tests/unit/advice/test_*.py",
            "tests/unit/studies/*/test_*.py",
            "tests/unit/studies/test_rules.py",
            "tests/unit/engine/test_forecast.py",
            "tests/unit/engine/test_host_sizes.py",
            "tests/golden/report/test_forecast_golden.py",
            "tests/golden/report/test_report_terminal_golden.py",
            "tests/golden/report/test_sweep_golden.py",
            "python/contend/advice/*.py",
            "python/contend/studies/causes/*.py",
            "python/contend/studies/*/*findings.py",
        ),
    ),
    Target(
        "plan-ledger",
        "the plan, the cells of every study, and the ledger: what a run is going to do, and its diary",
        (
            "python/contend/store/ledger.py",
            "python/contend/engine/plan.py",
            "python/contend/studies/plan.py",
            "python/contend/store/planned.py",
            "python/contend/studies/cell.py",
            "python/contend/studies/*/cells.py",
            "python/contend/studies/storage/cloud_cells.py",
            "python/contend/studies/storage/fio_words.py",
        ),
        (  # without those that reach cells by whole runs only, and take most of the time
            "tests/unit/clouds/test_instances.py",
            "tests/unit/studies/test_cells*.py",
            "tests/unit/studies/interference/test_copies.py",
            "tests/unit/studies/growth/test_growth_result.py",
            "tests/unit/store/test_ledger*.py",
            "tests/unit/studies/overhead/test_overhead_p*.py",
            "tests/unit/studies/placement/test_placement_plan.py",
            "tests/unit/engine/test_plan*.py",
            "tests/unit/studies/storage/test_cells_fio.py",
            "tests/unit/studies/storage/test_storage_cloud_study.py",
            "tests/unit/store/test_store.py",
            "tests/unit/studies/storm/test_storm_result.py",
            "python/contend/studies/*/cells.py",
        ),
    ),
)
