"""Scenario files, validated before anything runs.

A scenario names workloads, never how they are run; `plan.py` turns it into cells and trials. There is no key
for the order of trials: it is always randomised within blocks, from a seed that the run records.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Union

import yaml
from pydantic import Field, TypeAdapter

from contend.errors import BadInput, ContendError, ScenarioError, UnknownName, suggest
from contend.scenario.settings import apply_setting
from contend.scenario.yaml_file import YamlFile, read_yaml, validate
from contend.store.directory import PLAN_FILE, SCENARIO_FILE, RunDirectory
from contend.studies import registry as studies
from contend.studies.model import COMMAND, Scenario
from contend.text.masking import has_url_password
from contend.text.printable import short
from contend.workloads.parts import AS_WRITTEN


@functools.cache
def _brought(*, elsewhere: bool) -> Mapping[str, Path]:
    """The scenarios that studies bring, by name: the YAML files in the folder `scenarios` beside a study's code."""
    folders = studies.folders_elsewhere() if elsewhere else studies.folders()
    return {path.stem: path for folder in folders for path in sorted((folder / "scenarios").glob("*.yaml"))}


def builtin(name: str) -> Path | None:
    """The file of a scenario that a study brings; contend's own come before those of other packages."""
    if (own := _brought(elsewhere=False).get(name)) is not None:
        return own
    if "/" in name or name.endswith((".yaml", ".yml")):
        return None  # to look for studies of others reads every installed package
    return _brought(elsewhere=True).get(name)


def builtin_names() -> tuple[str, ...]:
    """Names of built-in scenarios in alphabetical order, those of other packages among them."""
    return tuple(sorted(_brought(elsewhere=True).keys() | _brought(elsewhere=False).keys()))


def titles() -> dict[str, str]:
    """Titles of the built-in scenarios by name. Contend's own are read and not parsed, so that no study is loaded; what
    another package brings is parsed, and says why it cannot be run where it cannot."""
    own = {name: str(read_yaml(path, name).data["title"]) for name, path in _brought(elsewhere=False).items()}
    for name in _brought(elsewhere=True).keys() - own.keys():
        try:
            own[name] = load(name).title
        except ContendError as error:
            own[name] = f"cannot be run: {error.message}"
    return dict(sorted(own.items()))


def find(name: str) -> Path:
    """The scenario file of a built-in name or a path. Raises UnknownName or ScenarioError.

    A built-in name is never a file of the working directory, which may be somebody else's: `./NAME` is.
    """
    path = Path(name)
    if (brought := builtin(name)) is not None:
        return brought
    if path.is_dir():
        raise ScenarioError(
            f"'{name}' is a directory, not a scenario",
            hint="name the YAML file, or a built-in: contend list scenarios",
        )
    if path.exists():
        return path
    if "/" in name or name.endswith((".yaml", ".yml")):
        raise ScenarioError(
            f"there is no file '{name}'", hint="contend list scenarios shows the built-in ones"
        )
    raise UnknownName("scenario", name, builtin_names())


def load(name: str, settings: tuple[str, ...] = ()) -> Scenario:
    """The scenario of a built-in name or file with `--set` values applied. Raises ScenarioError, UnknownName."""
    path = find(name)
    file = read_yaml(path, _shown(path) if builtin(name) is None else name, ScenarioError)
    return parse(file, settings)


def of_run(run: RunDirectory) -> Scenario:
    """The scenario that a run keeps. Raises ScenarioError, which names the package of a study that is not installed."""
    package: Any = None
    with suppress(BadInput, OSError):
        package = run.read_json(PLAN_FILE).get("package")
    file = read_yaml(run.scenario_text(), SCENARIO_FILE, ScenarioError)
    return parse(file, package=package if isinstance(package, dict) else None)


def parse(
    file: YamlFile, settings: tuple[str, ...] = (), *, package: Mapping[str, str] | None = None
) -> Scenario:
    """The scenario that a file holds. package: name and version of the one that brought its study when it was run.

    Raises ScenarioError.
    """
    name = file.name
    data = file.data if isinstance(file.data, dict) else {}
    for setting in settings:
        if has_url_password(setting):
            raise _password(f"--set {short(setting.partition('=')[0])}")
        data = apply_setting(data, setting)
    for key in _with_password(data):
        raise _password(f"{name}: {key}")
    if settings:  # lines of the file no longer say where a value stands
        given = " ".join(short(setting, 120) for setting in settings)
        file = read_yaml(yaml.safe_dump(data), f"{name} with --set {given}", ScenarioError)
    study = str(data.get("study") or "")
    try:
        model = studies.study(study).scenario
    except KeyError:
        what = f"unknown study '{study}'" if study else "the key 'study' is missing"
        hint = suggest(study, studies.runnable())
        if package:
            what += f": the package {package.get('name')} {package.get('version')}, which brings it, is not installed"
            hint = f"pip install {package.get('name')}, where contend is; then the same again: nothing of the run is lost"
        raise ScenarioError(f"{name}: {short(what, 200)}", hint=short(hint, 300)) from None
    try:
        scenario = validate(model, file, ScenarioError)
    except ScenarioError as error:
        # With --set, the lines are of a text that nobody has seen.
        message = re.sub(r", line \d+: ", ": ", error.message, count=1) if settings else error.message
        hint = error.hint or "`contend validate --schema scenario` prints every key and what it may be"
        raise ScenarioError(message, hint=hint) from error
    return scenario.model_copy(update={"origin": name})


def _password(where: str) -> ScenarioError:
    """The value itself is shown to nobody."""
    hint = "the run would record it: put it into a file (file:PATH), or into the environment"
    return ScenarioError(f"{where}: a URL with a password", hint=hint)


def _with_password(data: Any, at: str = "") -> Iterator[str]:
    """Keys below which a text holds one."""
    if isinstance(data, str):
        if has_url_password(data):
            yield at
    elif isinstance(data, Mapping | list):
        items = data.items() if isinstance(data, Mapping) else enumerate(data)
        for key, value in items:
            yield from _with_password(value, f"{at}.{key}" if at else str(key))


def to_yaml(scenario: Scenario) -> str:
    """The resolved scenario as a file that reads back to the same value: what the run directory keeps."""
    text: str = yaml.safe_dump(dump(scenario), sort_keys=False, allow_unicode=True, width=100)
    return text


def dump(scenario: Scenario) -> dict[str, Any]:
    data: dict[str, Any] = scenario.model_dump(
        mode="json", exclude_none=True, by_alias=True, exclude_defaults=True, context=AS_WRITTEN
    )
    data = {"study": scenario.study, **{k: v for k, v in data.items() if k != "study"}}
    for key in ("victims", "neighbours", "workloads", "apps"):
        if key in data:
            data[key] = [_short(ref) for ref in data[key]]
    if "mixes" in data:
        data["mixes"] = [[_short(ref) for ref in mix] for mix in data["mixes"]]
    if "injectors" in data:
        data["injectors"] = {resource: _short(ref) for resource, ref in data["injectors"].items()}
    if scenario.measure.target is None:
        data.setdefault("measure", {})["target"] = None
    return data


def _short(ref: dict[str, Any]) -> Any:
    if "command" in ref:
        return {COMMAND: ref["command"] | ({"limit": ref["limit"]} if ref.get("limit") else {})}
    body = dict(ref.get("parameters", {})) | ({"limit": ref["limit"]} if ref.get("limit") else {})
    return {ref["workload"]: body} if body else ref["workload"]


def json_schema() -> dict[str, Any]:
    """JSON Schema of scenario files, for editors."""
    models = tuple(study.scenario for _, study in studies.every())
    every: Any = Annotated[Union[models], Field(discriminator="study")]  # noqa: UP007 - made at run time
    adapter: TypeAdapter[Any] = TypeAdapter(every)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend scenario",
        **adapter.json_schema(by_alias=True),
    }


def _shown(path: Path) -> str:
    """The path as a person would write it from where they stand."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
