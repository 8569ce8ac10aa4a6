"""Finding and reading workload files: contend's own, the user's, and any path."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

from contend.errors import UnknownName, WorkloadError
from contend.files import config_home
from contend.scenario.yaml_file import Loc, YamlFile, read_yaml, validate
from contend.workloads.spec import Workload

_SUFFIXES = (".yaml", ".yml")


def catalogue() -> Path:
    """The directory of the workloads that come with contend."""
    return Path(str(importlib.resources.files("contend.workloads") / "catalogue"))


def user_directory() -> Path:
    """The directory of the user's own workloads: `$XDG_CONFIG_HOME/contend/workloads`."""
    return config_home() / "workloads"


def names(*, own: bool = True) -> tuple[str, ...]:
    """Every known name, sorted. A user's file of the same name takes the place of a built-in one. own: the user's too."""
    return tuple(sorted(_known(own=own)))


def load(name_or_path: str) -> Workload:
    """The workload of that name, or in that file when it has a slash or ends in `.yaml`.

    Raises UnknownName for a name that is not known, WorkloadError for a file that is not a workload.

    >>> load("fio").dominant
    'disk'
    """
    if "/" in name_or_path or name_or_path.endswith(_SUFFIXES):
        return load_file(Path(name_or_path))
    known = _known()
    if name_or_path not in known:
        raise UnknownName("workload", name_or_path, known)
    path = known[name_or_path]
    workload = load_file(path)
    if workload.name != path.stem:
        file = read_yaml(path, _shown(path), WorkloadError)
        raise WorkloadError(
            f"{file.where(('name',))}: 'name: {workload.name}' is not the name of the file",
            hint=f"call the file {workload.name}{path.suffix}, or the workload {path.stem}",
        )
    return workload


def load_file(path: Path) -> Workload:
    """The workload in that file. Raises WorkloadError, with the line of the first mistake."""
    file = read_yaml(path, _shown(path), WorkloadError)
    workload = validate(Workload, file, WorkloadError, advise=_advise)
    for name, metric in workload.metrics.items():
        if metric.path:
            _check_path(file, ("metrics", name, "path"), metric.path)
        if metric.per is not None:
            _check_path(file, ("metrics", name, "per", "path"), metric.per.path)
    for name, entry in workload.files.items():
        loc = ("files", name)
        if name.startswith("/") or ".." in Path(name).parts:
            raise WorkloadError(
                f"{file.where(loc)}: '{name}' is not below {{work}}", hint="give a relative path without '..'"
            )
        beside = entry.beside
        if beside is not None and not (path.parent / beside).is_file():
            raise WorkloadError(
                f"{file.where((*loc, 'beside'))}: there is no '{beside}' beside {file.name}",
                hint="put it next to the workload's file",
            )
    return workload.model_copy(update={"origin": str(path)})


def schema() -> dict[str, Any]:
    """The JSON Schema of a workload file, for editors that check YAML while it is written."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "workload.schema.json",
        **Workload.model_json_schema(by_alias=True),
    }


def _known(*, own: bool = True) -> dict[str, Path]:
    """Name → file. The user's come last and win."""
    paths: dict[str, Path] = {}
    for directory in (catalogue(), user_directory())[: 2 if own else 1]:
        try:
            entries = sorted(directory.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise WorkloadError(
                f"cannot read {directory}: {error.strerror}", hint="check the directory's permissions"
            ) from error
        paths |= {p.stem: p for p in entries if p.suffix in _SUFFIXES and not p.name.startswith(".")}
    return paths


def _shown(path: Path) -> str:
    """The path as a person would write it: relative below the current directory, `~` below their home."""
    if not path.is_absolute():
        return str(path)
    for base, prefix in ((catalogue().parents[2], ""), (Path.cwd(), ""), (_home(), "~/")):
        if path.is_relative_to(base):
            return prefix + str(path.relative_to(base))
    return str(path)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without one writes no path from there
        return Path("/nonexistent")


def _check_path(file: YamlFile, loc: Loc, path: str) -> None:
    # Only files that use it ask for it; without it their metrics could not be read anyway.
    import jsonpath

    try:
        jsonpath.compile(path)
    except jsonpath.JSONPathError as error:
        where = file.where(loc)
        raise WorkloadError(
            f"{where}: 'path: {path}' is not a JSONPath: {_first_line(error)}",
            hint="it reads like $.jobs[0].read.iops or $['a name'].value",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_LOWER = frozenset({"s", "ms", "us", "µs", "ns", "B", "KiB", "MiB", "GiB", "bytes", "%", "W", "J"})


def _advise(file: YamlFile, loc: Loc) -> str:
    """A hint for `better`, from the metric's unit: a rate is better higher, a time or a size lower."""
    if len(loc) == 3 and loc[0] == "metrics" and loc[2] == "better":
        unit = file.value_at((*loc[:2], "unit"))
        if isinstance(unit, str) and unit in _LOWER:
            return f"{loc[1]} in {unit} is usually 'lower'"
        if isinstance(unit, str) and (unit.endswith(("/s", "ps")) or "IOPS" in unit):
            return f"{loc[1]} in {unit} is usually 'higher'"
        return "'higher' if more is good, like a throughput; 'lower' if less is, like a time"
    return ""
