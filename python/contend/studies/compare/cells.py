"""Cells of a comparison: one a variant; the first again as the control."""

from __future__ import annotations

import shlex

from contend.studies.cell import COMMAND, COMMAND_METRICS, Cell, CellWorkload, escape
from contend.studies.compare.model import Compare, Variant
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from contend.workloads.parts import Stop
from contend.workloads.spec import Workload


def cells(scenario: Compare) -> tuple[Cell, ...]:
    first = scenario.variants[0].name
    made: list[Cell] = []
    compared = load_workload(scenario.workload) if scenario.workload else None
    for variant in scenario.variants:
        if compared is not None:
            instance = resolve(compared, {**scenario.parameters, **variant.parameters})
        else:
            instance = resolve(_command(scenario, variant), {})
        workload = CellWorkload(variant.name, instance)
        factors = {"variant": variant.name, "platform": scenario.platform.kind}
        made.append(Cell(variant.name, workload, (), factors, "" if variant.name == first else first))
        if variant.name == first:
            control = {**factors, "variant": f"{first} (control)"}
            made.append(Cell(f"{first} (control)", workload, (), control, first, control=True))
    return tuple(made)


def _command(scenario: Compare, variant: Variant) -> Workload:
    return Workload(
        name=COMMAND,
        title=variant.name,
        prepare=_build(variant),
        before=escape(variant.prepare) or None,
        stop=Stop(run=escape(variant.stop)),
        directory="{work}/tree" if variant.rev else escape(variant.directory),
        env=variant.env,
        run=(escape(variant.command),),
        metrics=dict(scenario.metrics) or dict(COMMAND_METRICS),
        dominant="cpu",
        trial=f"{scenario.timeout}ns",  # at most
    )


def _build(variant: Variant) -> tuple[str, ...]:
    """Commands that check a revision out into {work}/tree, leaving the user's own checkout as it is."""
    if not variant.rev:
        return ()
    source = escape(shlex.quote(variant.directory))
    steps: tuple[str, ...] = (
        f"git clone --quiet --shared --no-checkout {source} {{work}}/tree",
        f"git -C {{work}}/tree checkout --quiet --detach {escape(shlex.quote(variant.rev))}",
    )
    if variant.build:
        steps += (f"sh -c {escape(shlex.quote('cd tree && ' + variant.build))}",)
    return steps
