"""The registry of studies: contend's own, a line each, and those of other packages.

Another package names its studies by entry points of the group `contend.studies`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

from contend.document import RESERVED
from contend.errors import BadInput
from contend.studies.base import Study
from contend.studies.cell import Cell, CellWorkload
from contend.studies.model import Scenario
from contend.text.shape import Shape

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "contend.studies"
"""The group in which another package names its studies: NAME = module:OBJECT."""
OWN_DEFECT = "a mistake in contend itself"

_OWN: Mapping[str, str] = {
    "interference": "contend.studies.interference.study",
    "compare": "contend.studies.compare.study",
    "storm": "contend.studies.storm.study",
    "growth": "contend.studies.growth.study",
    "overhead": "contend.studies.overhead.study",
    "placement": "contend.studies.placement.study",
    "imported": "contend.studies.imported.study",
    "sensitivity": "contend.studies.sensitivity.study",
    "storage": "contend.studies.storage.study",
    "prove": "contend.studies.prove.study",
}


@cache
def study(name: str) -> Study[Any]:
    """The study of that name. Raises KeyError where there is none, BadInput for one of another package that is not a
    study."""
    if name in _OWN:
        return cast("Study[Any]", importlib.import_module(_OWN[name]).STUDY)
    for point in _elsewhere():
        if point.name == name:
            return _loaded(point)
    raise KeyError(name)


def _loaded(point: EntryPoint) -> Study[Any]:
    def no_study(why: str) -> BadInput:
        return BadInput(
            f"{_titled(point)} cannot be used: {why}",
            hint=f"mend {point.value}, or uninstall the package",
        )

    try:
        study = point.load()
    except Exception as error:
        raise no_study(f"{type(error).__name__}: {error}") from error
    model = getattr(study, "scenario", None)
    if not isinstance(study, Study):
        raise no_study("it is no object of a subclass of contend.studies.base.Study")
    if not (isinstance(model, type) and issubclass(model, Scenario)):
        raise no_study("its `scenario` is no subclass of contend.studies.model.Scenario")
    if not _has_a_shape(study.result_type()):
        raise no_study("its `result_type` is no class below contend.text.shape.Shape, and no tuple of one")
    if (key := study.key or point.name) in RESERVED:
        raise no_study(f"its result would stand under '{key}', which every findings.json has")
    return study


def _has_a_shape(result: Any) -> bool:
    of = get_args(result)[0] if get_origin(result) is tuple else result
    return of is None or (isinstance(of, type) and issubclass(of, Shape))


def package_on_record(scenario: Scenario) -> dict[str, dict[str, str]]:
    """For plan.json: name and version of the package that brings a scenario's study; nothing where that is contend's own."""
    name = scenario.study
    dist = None if name in _OWN else next((p.dist for p in _elsewhere() if p.name == name), None)
    return {} if dist is None else {"package": {"name": dist.name, "version": dist.version}}


def study_of(scenario: Scenario) -> Study[Any]:
    """The study that a scenario belongs to."""
    return study(scenario.study)


def names() -> tuple[str, ...]:
    """Names of all studies."""
    return (*_OWN, *(point.name for point in _elsewhere() if point.name not in _OWN))


def every() -> Iterator[tuple[str, Study[Any]]]:
    """Names and studies of all that load. A broken one of another package is an error only for those who use it."""
    for name in names():
        with suppress(BadInput):
            yield name, study(name)


def described() -> Iterator[tuple[str, str]]:
    """Each study's name and a line on it.

    The line is the docstring of a study's package for contend's own, which are not loaded for it; for another package's the
    first line of its scenario's docstring.
    """
    for name, module in _OWN.items():
        yield name, importlib.import_module(module.rpartition(".")[0]).__doc__ or name
    for point in _elsewhere():
        if point.name not in _OWN:
            try:
                lines = (study(point.name).scenario.__doc__ or "").strip().splitlines()
                yield point.name, f"{lines[0].strip() if lines else point.name} (package {_package(point)})"
            except BadInput as error:
                yield point.name, error.message


def runnable() -> tuple[str, ...]:
    """Names of studies that can be run."""
    return tuple(name for name, one in every() if one.runs)


def folders() -> Iterator[Path]:
    """Directories with the code of contend's own studies."""
    for name in _OWN.values():
        yield Path(__file__).parent / name.split(".")[2]


def folders_elsewhere() -> Iterator[Path]:
    """Directories with the code of other packages' studies. Finding them runs none of it."""
    for point in _elsewhere():
        with suppress(Exception):  # it is broken: that is told to who asks for the study
            spec = importlib.util.find_spec(point.module.rpartition(".")[0] or point.module)
            yield from map(Path, (spec and spec.submodule_search_locations) or ())


@cache
def _elsewhere() -> tuple[EntryPoint, ...]:
    # Looked for only where the name is none of ours: it reads every installed package.
    return tuple(entry_points(group=ENTRY_POINTS))


def cells_of(scenario: Scenario) -> tuple[Cell, ...]:
    """The cells that a scenario compares. Raises BadInput, also where another package's study makes cells that no plan
    can be made of."""
    cells = study_of(scenario).cells(scenario)
    if scenario.study not in _OWN and (why := _not_comparable(cells)):
        raise BadInput(
            f"the study '{scenario.study}' makes cells that cannot be compared: {why}",
            hint="it is the study's own code that is to be mended, not the scenario",
        )
    return cells


def _not_comparable(cells: Sequence[Cell]) -> str:
    """Name the first error of cells: each one here would make a run of other cells than were meant, or none."""
    if not cells:
        return "there is none"
    ids, by_label = set[str](), dict[str, CellWorkload]()
    for cell in cells:
        if cell.id in ids:
            return f"two are called '{cell.id}'"
        ids.add(cell.id)
        for name, value in cast("Mapping[str, object]", cell.factors).items():
            if not isinstance(value, str):
                return f"the factor '{name}' of '{cell.id}' is no text: {value!r}"
        known = by_label.setdefault(cell.victim.label, cell.victim)
        if known.instance != cell.victim.instance:
            return f"two parties are called '{cell.victim.label}', and run different things"
        if cell.control and not cell.baseline:
            return f"the control '{cell.id}' has no baseline"
    for cell in cells:
        if cell.baseline and cell.baseline not in ids:
            return f"the baseline of '{cell.id}' is '{cell.baseline}', which there is not"
    return ""


def whose_defect(error: BaseException) -> str:
    """In whose code something unforeseen was raised, in words: that of another package's study, or contend's own.

    What a study has given may be wrong in contend's code only: a study that was used is named there too.
    """
    folders = dict(_folders_of_code())
    packages = {point.module.partition(".")[0]: point for point in _elsewhere()}
    trace = error.__traceback__
    while trace is not None:
        name, file = (
            str(trace.tb_frame.f_globals.get("__name__", "")),
            Path(trace.tb_frame.f_code.co_filename),
        )
        point = packages.get(name.partition(".")[0])
        if point is None and file.suffix == ".j2":  # its part of the page
            point = folders.get(file.parent)
        if point is not None:
            return f"a mistake in {_titled(point)}"
        trace = trace.tb_next
    used = " and ".join(_titled(point) for point in _elsewhere() if point.module in sys.modules)
    return f"{OWN_DEFECT}, or in what {used} gave it" if used else OWN_DEFECT


def _folders_of_code() -> Iterator[tuple[Path, EntryPoint]]:
    """Where the modules of other packages' studies lie."""
    for point in _elsewhere():
        with suppress(Exception):  # it is broken: that is told to who asks for the study
            spec = importlib.util.find_spec(point.module)
            if spec is not None and spec.origin:
                yield Path(spec.origin).parent, point


def _titled(point: EntryPoint) -> str:
    return f"the study '{point.name}' of the package {_package(point)}"


def _package(point: EntryPoint) -> str:
    """The distribution that brings a study; its module where none is named."""
    return point.dist.name if point.dist else point.module
