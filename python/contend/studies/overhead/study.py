"""Overhead: what a platform costs an application, of which size, and pinned or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.document import Analysis, Layout
from contend.errors import BadInput, CannotHonour
from contend.platforms.sizes import sized
from contend.platforms.standing import limits_changed
from contend.platforms.topology import Topology
from contend.report import scheduling_words
from contend.report.matrix import platform_name, subject
from contend.store.cells import Values
from contend.store.directory import Row
from contend.studies import platform_settings
from contend.studies.base import OnRecord, Study, works
from contend.studies.cell import Cell
from contend.studies.model import GUESTS, Scenario
from contend.studies.overhead import fit
from contend.studies.overhead import result as results
from contend.studies.overhead.cells import cells
from contend.studies.overhead.findings import findings
from contend.studies.overhead.model import Overhead
from contend.studies.overhead.practices import judge
from contend.studies.overhead.result import part
from contend.studies.overhead.variants import platform_of
from contend.text.printable import short

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer


class OverheadStudy(Study[Overhead]):
    scenario = Overhead
    key = "overhead"
    below = True

    def cells(self, scenario: Overhead) -> tuple[Cell, ...]:
        return cells(scenario)

    def measuring(
        self, scenario: Overhead, command: Mapping[str, Any], beside: Sequence[str | Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        if beside:
            raise BadInput(
                "what a platform costs is measured with nothing beside it",
                hint="contend run noisy-neighbour --set platform=container --beside … -- CMD",
            )
        title = f"What does this platform cost {short(command['command']['run'], 60)}; pin it or not?"
        return {"title": title, "apps": [command]}

    def fitted(self, scenario: Overhead, runs: Path) -> tuple[Overhead, tuple[str, ...]]:
        return fit.fitted(scenario)

    def without_missing(
        self, scenario: Overhead, check: Callable[[Scenario], None]
    ) -> tuple[Overhead, tuple[str, ...]]:
        left_out: list[str] = []
        kept = tuple(
            ref
            for ref in scenario.apps
            if works(check, scenario.model_copy(update={"apps": (ref,)}), f"app {ref.workload}", left_out)
        )
        if scenario.apps and not kept:
            raise CannotHonour("none of the apps can run here", hint="; ".join(left_out))
        return scenario.model_copy(update={"apps": kept}), tuple(dict.fromkeys(left_out))

    def in_guests(self, scenario: Overhead) -> bool:
        return bool(set(scenario.platforms) & set(GUESTS))

    def hosts(self, scenario: Overhead) -> dict[int | None, Topology]:
        return platform_settings.wired(scenario, Topology.read())

    def wiring(self, scenario: Overhead, runs: Path) -> dict[str, Any]:
        record: dict[str, Any] = {"topology": Topology.read().to_json()}
        if scenario.hosts:
            record["hosts"] = {str(cpus): list(of.ids) for cpus, of in self.hosts(scenario).items()}
        return record

    def timeout_s(self, scenario: Overhead) -> float:
        return scenario.timeout / 1e9

    def histograms(self, scenario: Overhead) -> bool:
        return scenario.histograms

    def unsound(self, rows: Iterable[Row]) -> frozenset[str]:
        """Cells most of whose trials used more CPU time than their CPUs have."""
        done = [row for row in rows if row["status"] == "ok"]
        counts = Counter(row["cell"] for row in done)
        left = Counter(row["cell"] for row in done if "left-its-cpus" in row["flags"])
        return frozenset(cell for cell, number in left.items() if 2 * number > counts[cell])

    def part(self, values: Values, loop: str) -> float:
        return part(platform_of(values).cpus, loop)

    def read(self, scenario: Overhead, run: OnRecord) -> results.Overheads | None:
        if "cpus" not in run.environment:  # of a damaged run: what is a part of them?
            return None
        honoured = [(row["factors"]["platform"], row.get("honoured", {})) for row in run.counted]
        emulated = {platform for platform, given in honoured if given.get("emulated")}
        libvirts = {platform: uri for platform, given in honoured if (uri := given.get("libvirt"))}
        # Not one condition: no part of any effect, also of two containers.
        changed = limits_changed(run.counted)
        usable = [
            one
            for one in run.primary
            if one.cell not in changed and min(*one.treatment.values, *one.baseline.values) > 0
        ]
        overheads = results.read(
            [results.measured(one) for one in usable],
            int(run.environment["cpus"]),
            scenario.measure.level,
            scenario.measure.matters,
            run.seed,
            sorted(emulated),
            dict(sorted(libvirts.items())),
        )
        applications = {
            one.factors["victim"]: one.values.victim for one in run.primary if one.values.victim is not None
        }
        overheads = replace(overheads, applications=applications)
        dominant = {name: str(of["dominant"]) for name, of in run.plan["workloads"].items()}
        measured = {one.factors["platform"] for one in run.primary}
        return replace(overheads, practices=judge(overheads, usable, dominant, measured))

    def answer(
        self, scenario: Overhead, run: OnRecord, result: results.Overheads | None, findings: Sequence[Finding]
    ) -> str:
        return "" if result is None else results.answer(run.primary, scenario.measure.matters)

    def findings(
        self, scenario: Overhead, run: OnRecord, result: results.Overheads | None
    ) -> tuple[Finding, ...]:
        return () if result is None else findings(result, run.primary, run.repeat)

    def layout(self, result: results.Overheads | None) -> Layout:
        layout = Layout(
            rows="application",
            column="",
            beside="",
            baseline="bare",
            position=lambda cell: (
                "",
                f"{subject(cell.factors)}, {sized(cell.factors)}",
                platform_name(cell.factors),
            ),
            condition=lambda factors: f"{platform_name(factors)}, {sized(factors)}",
            compared=frozenset({"platform", "provisioning", "period", "burst", "placement"}),
        )
        if result is None:
            return layout
        return replace(
            layout,
            title="What each platform costs",
            treated="on the platform",
            untreated="on the bare host of its size",
        )

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        from contend.studies.overhead.terminal import show_overhead

        width = printer.console.width
        show_overhead(report, printer.line, printer.columns, width=width, verbose=verbose)

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.report.schedule_plots import schedule_plots
        from contend.studies.overhead.plots import overhead_plots

        return overhead_plots(report.analysis) + schedule_plots(report.analysis)

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        if not known:
            return super().nothing_found(analysis, known=known)
        return "none: no platform is shown to cost more than the bare host by 5 % or more."

    def effects(self, analysis: Analysis) -> tuple[Sequence[str], list[tuple[Sequence[str], str]]] | None:
        overheads: results.Overheads = analysis.result
        if not overheads.effects:
            return None
        from contend.studies.overhead.words import effect_headers, effect_rows

        seen = [effect.ratio.verdict for effect in overheads.effects]
        return effect_headers(), list(zip(effect_rows(overheads), seen, strict=True))

    def result_type(self) -> Any:
        return results.Overheads

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("overhead", "Type and size"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        from contend.report import cpu_map
        from contend.studies.overhead import words

        return {
            "overhead": report.analysis.result,
            "overhead_words": words,
            "scheduling": scheduling_words,
            "cpu_maps": cpu_map,
            "cpus": cpu_map.cpu_map(report),
        }


STUDY = OverheadStudy()
