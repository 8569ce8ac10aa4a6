"""`contend validate`: is a scenario or workload file right? Nothing is run, nothing is made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from contend.errors import BadInput, CannotHonour
from contend.text.masking import mask_value, mask_yaml


@click.command("validate", short_help="Check a scenario or workload file.")
@click.argument("file", required=False)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a value of the scenario first."
)
@click.option("--show", is_flag=True, help="Print what the file means, resolved.")
@click.option(
    "--schema",
    type=click.Choice(["scenario", "workload"]),
    help="Print the JSON Schema for editors instead; takes no FILE.",
)
def command(file: str | None, settings: tuple[str, ...], show: bool, schema: str | None) -> int:
    """Check FILE: a scenario (it has a `study`) or a workload (it has a `run`), a built-in's name or a path."""
    from contend.studies import scenarios

    if schema is not None:
        if file is not None or settings or show:
            raise BadInput(
                "--schema prints the schema, and looks at no FILE", hint=f"--schema {schema} alone"
            )
        from contend.workloads.load import schema as workload_schema

        json.dump(
            scenarios.json_schema() if schema == "scenario" else workload_schema(), sys.stdout, indent=1
        )
        print()
        return 0
    if file is None:
        raise BadInput(
            "no FILE was named", hint="contend validate mine.yaml, or: contend validate noisy-neighbour"
        )
    if _is_workload(file):
        from contend.workloads.load import load as load_workload
        from contend.workloads.parts import AS_WRITTEN

        if settings:
            raise BadInput(
                "--set changes scenarios, not workloads", hint="give the workload's parameters in a scenario"
            )
        workload = load_workload(file)
        names = ", ".join(workload.metrics)
        print(
            f"{file}: workload '{workload.name}' is right: {len(workload.parameters)} parameters, metrics {names}"
        )
        if show:
            shown = workload.model_dump(mode="json", by_alias=True, exclude_defaults=True, context=AS_WRITTEN)
            print(json.dumps(mask_value(shown), indent=1, ensure_ascii=False))
        return 0
    from contend.engine.checks import fitted
    from contend.studies.registry import cells_of, study_of

    scenario, left_out = fitted(scenarios.load(file, settings))

    cells = cells_of(scenario)
    lacking = ""
    try:
        study_of(scenario).check(scenario)
    except CannotHonour as error:  # the file is right, and may be for another host
        lacking = f"{error.message} (hint: {error.hint})" if error.hint else error.message
    print(f"{file}: scenario is right: {scenario.study}, {len(cells)} cells")
    for cell in cells:
        print(f"  {cell.label}{' (control)' if cell.control else ''}")
    for line in left_out:
        print(f"  left out: {line}")
    if lacking:
        print(f"  cannot run on this host: {lacking}")
    if show:
        print(mask_yaml(scenarios.to_yaml(scenario)), end="")
    return 0


def _is_workload(name: str) -> bool:
    """A workload has `run` and `metrics` at its top level; a scenario has `study`."""
    from contend.scenario.yaml_file import read_yaml
    from contend.studies.scenarios import builtin_names
    from contend.workloads.load import names as workload_names

    path = Path(name)
    if not path.exists():
        return name in workload_names() and name not in builtin_names()
    if path.is_dir():
        return False
    data = read_yaml(path, name).data
    return (
        isinstance(data, dict) and "study" not in data and bool(data.keys() & {"run", "metrics", "dominant"})
    )
