"""Exports of a run in other formats: CSV, Parquet and LaTeX for tables, JUnit for CI, OpenMetrics for monitoring."""

from __future__ import annotations

import csv
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from contend.document import CellResult, Control
from contend.errors import HostFailed, UnknownName
from contend.files import SHARED, made_beside
from contend.report import words
from contend.report.exposition import Family, exposition
from contend.report.gate import inverted, is_beyond, might_be_beyond
from contend.report.latex import export_latex
from contend.report.matrix import condition, control_detail, is_compare, subject
from contend.report.model import ReportInput
from contend.stats.estimate import Estimate
from contend.store.series import pattern
from contend.units import NS_PER_S

FACTORS = (
    "victim",
    "neighbour",
    "placement",
    "platform",
    "provisioning",
    "size",
    "host",
    "host_by",
    "variant",
    "subnet",
    "encapsulation",
    "protocol",
    "message",
    "pairs",
    "ends",
)
# Column of every run: DuckDB type; those of a study's own factors follow. Metric columns are empty for a trial that failed,
# so that no trial is left out.
COLUMNS: Mapping[str, str] = {
    "run": "VARCHAR", "trial": "BIGINT", "block": "BIGINT", "phase": "VARCHAR", "cell": "VARCHAR",
    **dict.fromkeys(FACTORS, "VARCHAR"),
    "metric": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "better": "VARCHAR", "loop": "VARCHAR",
    "primary": "BOOLEAN", "status": "VARCHAR", "error": "VARCHAR", "flags": "VARCHAR", "utc": "VARCHAR",
    "started_ns": "BIGINT", "ended_ns": "BIGINT",
}  # fmt: skip


def export(report: ReportInput, form: str, path: Path, *, fail_above: float = 0.05) -> None:
    """Write `report` to `path` in one of FORMATS; the file appears whole or not at all.

    `fail_above` is for junit: a comparison fails when its whole interval lies above 1 + `fail_above`, and is skipped, as
    undecided, where that lies within it.
    Raises UnknownName for another format, HostFailed when the file cannot be written.
    """
    if form not in FORMATS:
        raise UnknownName("export format", form, FORMATS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with made_beside(path) as part:
            FORMATS[form](report, part, fail_above)
            part.chmod(SHARED)
    except OSError as error:
        raise HostFailed(
            f"cannot write {path}: {error.strerror}", hint="choose another place with -o FILE"
        ) from error


# ---- tables


def own_factors(report: ReportInput) -> dict[str, str]:
    """Columns of the factors that are the study's own, and the factor of each."""
    own = [name for factors in report.cells.values() for name in factors if name not in FACTORS]
    return {column: name for name, column in _distinct({name: name for name in own}, COLUMNS).items()}


def _distinct(wanted: Mapping[str, str], taken: Iterable[str]) -> dict[str, str]:
    """Names that differ in more than their case, from each other and from those that are taken, by what they are of.

    wanted: the name that each would have; one that is taken becomes `factor_NAME`, with a number where that is taken too.

    >>> _distinct({"a level": "level", "a run": "run", "another": "Run"}, ["run"])
    {'a level': 'level', 'a run': 'factor_run', 'another': 'factor_Run_2'}
    """
    names: dict[str, str] = {}
    used = {name.lower() for name in taken}
    for what, name in wanted.items():
        spare = (f"factor_{name}{f'_{n}' if n > 1 else ''}" for n in itertools.count(1))
        names[what] = next(each for each in itertools.chain([name], spare) if each.lower() not in used)
        used.add(names[what].lower())
    return names


def tidy(report: ReportInput) -> Iterator[dict[str, Any]]:
    """One row a trial and metric, pilot included; a failed trial is one row without a metric."""
    own = own_factors(report)
    for row in report.rows:
        factors = row.get("factors", {})
        common = {
            "run": report.analysis.run,
            **{k: row.get(k) for k in ("trial", "block", "phase", "cell")},
            **{name: factors.get(name) for name in FACTORS},
            "status": row.get("status"),
            "error": row.get("error") or None,
            "flags": ";".join(row.get("flags", ())) or None,
            **{k: row.get(k) for k in ("utc", "started_ns", "ended_ns")},
            **{column: factors.get(name) for column, name in own.items()},
        }
        for metric in row.get("metrics") or [{}]:
            named = {k: metric.get(k) for k in ("value", "unit", "better", "loop", "primary")}
            yield {**common, "metric": metric.get("name"), **named}


def _csv(report: ReportInput, path: Path, _: float) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        names = [*COLUMNS, *own_factors(report)]
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in tidy(report))


def _parquet(report: ReportInput, path: Path, _: float) -> None:
    """The CSV with its types, through DuckDB: an Arrow library would cost 100 MB for this one table."""
    source = path.with_name(path.name + ".csv")
    try:
        _csv(report, source, 0)
        with duckdb.connect() as connection:
            types = {**COLUMNS, **dict.fromkeys(own_factors(report), "VARCHAR")}
            rows = connection.read_csv(
                pattern(source), header=True, dtype=types, quotechar='"', escapechar='"'
            )
            rows.write_parquet(str(path))
    finally:
        source.unlink(missing_ok=True)


# ---- junit


def _junit(report: ReportInput, path: Path, fail_above: float) -> None:
    analysis = report.analysis
    suite = ET.Element("testsuite", name=_xml(f"contend {analysis.run}"))
    failures = skipped = 0
    results: list[tuple[str, str, Estimate, bool, bool]] = [
        (
            f"{subject(c.factors)} {c.metric.name}".strip(),
            condition(c, analysis),
            c.estimate,
            inverted(c, report),
            False,
        )
        for c in analysis.cells
    ]
    results += [
        (
            f"{subject(c.repeats)} {c.metric.name}".strip(),
            f"control{control_detail(c, analysis)}",
            c.estimate,
            False,
            True,
        )
        for c in analysis.controls
    ]
    # A control that differs fails. One that may or may not is no test of the user's that was skipped.
    for who, what, estimate, less_is_worse, control in results:
        case = ET.SubElement(
            suite, "testcase", classname=_xml(f"{analysis.study}.{who}"), name=_xml(f"{who} {what}")
        )
        text = words.ratio(estimate)
        if not estimate.known and not control:
            skipped += 1
            ET.SubElement(case, "skipped", message=_xml(f"{estimate.verdict}: {text}"))
        elif estimate.known and is_beyond(estimate, fail_above, less_is_worse, control=control):
            failures += 1
            limit = f"worse by more than {words.percent(fail_above)}, beyond its interval"
            ET.SubElement(case, "failure", message=_xml(f"{text}: {limit}"), type="slowdown")
        elif not control and might_be_beyond(estimate, fail_above, less_is_worse, control=False):
            skipped += 1
            about = f"undecided: {text}: whether it is worse by more than {words.percent(fail_above)}"
            ET.SubElement(case, "skipped", message=_xml(about))
        else:
            ET.SubElement(case, "system-out").text = _xml(text)
    suite.set("tests", str(len(results)))
    suite.set("failures", str(failures))
    suite.set("errors", "0")
    suite.set("skipped", str(skipped))
    suite.set("time", f"{report.elapsed_ns / NS_PER_S:.3f}")
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _xml(text: str) -> str:
    """Text that XML 1.0 may hold: control characters of a tool's output become spaces."""
    allowed = (
        c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else " "
        for c in text
    )
    return "".join(allowed)


# ---- openmetrics


def _openmetrics(report: ReportInput, path: Path, _: float) -> None:
    """Text exposition, OpenMetrics 1.0: a family a bound, since a gauge has one value."""
    analysis = report.analysis
    name = "comparison" if is_compare(analysis) else "slowdown"
    meaning = (
        "treatment / baseline" if is_compare(analysis) else "slowdown beside the baseline, above 1 is worse"
    )
    families: list[Family] = []

    def family(metric: str, unit: str, about: str, samples: list[tuple[dict[str, str], float]]) -> None:
        families.append(Family(metric, "gauge", unit, about, samples))

    compared: tuple[CellResult | Control, ...] = (*analysis.cells, *analysis.controls)
    label = _label_names(name for item in compared for name in item.factors)

    def labels(item: CellResult | Control) -> dict[str, str]:
        factors = {label[name]: value for name, value in item.factors.items()}
        return {"run": analysis.run, **factors, "metric": item.metric.name}

    kinds: list[tuple[str, str, tuple[CellResult, ...] | tuple[Control, ...]]] = [
        (name, meaning, analysis.cells),
        ("control", "the A/A control: the same cell under two labels", analysis.controls),
    ]
    for kind, about, items in kinds:
        for suffix, bound in (("", ""), ("_low", ", lower bound"), ("_high", ", upper bound")):
            key = suffix.removeprefix("_") or "value"
            samples = [(labels(i), float(getattr(i.estimate, key))) for i in items]
            family(f"contend_{kind}{suffix}_ratio", "ratio", about + bound, samples)
    detectable = [(labels(c), c.detectable) for c in analysis.controls]
    family("contend_detectable_ratio", "ratio", "smallest relative effect seen with 80 % power", detectable)
    run = {"run": analysis.run}
    family("contend_trials", "", "trials that were run", [(run, float(analysis.trials))])
    family("contend_failed_trials", "", "trials without a result", [(run, float(len(analysis.failed)))])
    path.write_text(exposition(families), encoding="utf-8")


def _label_names(factors: Iterable[str]) -> dict[str, str]:
    """Labels by factor, none of which is another's or the exporter's: a letter first, then letters, digits and _.

    >>> _label_names(["block size", "block_size", "metric", "2nd"])
    {'block size': 'block_size', 'block_size': 'factor_block_size', 'metric': 'factor_metric', '2nd': 'factor_2nd'}
    """
    plain = {name: re.sub(r"\W", "_", name, flags=re.ASCII) for name in factors}
    wanted = {
        name: label if re.match("[A-Za-z]", label) else f"factor_{label}" for name, label in plain.items()
    }
    return _distinct(wanted, ("run", "metric"))


FORMATS: Mapping[str, Callable[[ReportInput, Path, float], None]] = {
    "csv": _csv,
    "parquet": _parquet,
    "junit": _junit,
    "openmetrics": _openmetrics,
    "latex": export_latex,
}
