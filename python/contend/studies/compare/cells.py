"""Cells of a comparison: one a variant; the first again as the control."""

from __future__ import annotations

import shlex

from contend.studies.cell import COMMAND_METRICS, Cell, CellWorkload, escape
from contend.studies.compare.layouts import LAYOUTS
from contend.studies.compare.model import Compare, Variant
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from contend.workloads.parts import Stop
from contend.workloads.spec import Workload

COUNTED = "instructions.json"


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
    linked = LAYOUTS if scenario.linked else 0
    directory = escape(variant.directory)
    if variant.rev:
        directory = "{work}/tree-{layout}" if linked else "{work}/tree"
    prepare = _build(variant, linked)
    if scenario.instructions:
        tree = "{work}/tree-0" if linked else "{work}/tree"
        where = tree if variant.rev else escape(shlex.quote(variant.directory)) or "{work}"
        prepare += (_counting(variant, where),)
    return Workload(
        name="command",
        title=variant.name,
        prepare=prepare,
        before=escape(variant.prepare) or None,
        stop=Stop(run=escape(variant.stop)),
        directory=directory,
        layouts=LAYOUTS if scenario.randomise else 0,
        env=variant.env,
        run=(escape(variant.command),),
        metrics=dict(scenario.metrics) or dict(COMMAND_METRICS),
        dominant="cpu",
        trial=f"{scenario.timeout}ns",  # at most
        timeout=f"{scenario.timeout}ns",
    )


def _build(variant: Variant, linked: int) -> tuple[str, ...]:
    """Commands that check a revision out into {work}/tree, leaving the user's own checkout as it is.

    linked: into so many, {work}/tree-0 and so on, built with their objects linked in an order by chance.
    """
    if not variant.rev:
        return ()
    source = escape(shlex.quote(variant.directory))
    steps: tuple[str, ...] = ("{native} link-order write {work}/linkers",) if linked else ()
    for number in range(max(1, linked)):
        tree = f"tree-{number}" if linked else "tree"
        steps += (
            f"git clone --quiet --shared --no-checkout {source} {{work}}/{tree}",
            f"git -C {{work}}/{tree} checkout --quiet --detach {escape(shlex.quote(variant.rev))}",
        )
        if variant.build:
            order = f"export COMPILER_PATH=$PWD/linkers CONTEND_LAYOUT_SEED={number} && " if linked else ""
            steps += (f"sh -c {escape(shlex.quote(f'{order}cd {tree} && ' + variant.build))}",)
    return steps


def _counting(variant: Variant, directory: str) -> str:
    """A command that counts the instructions of one run."""
    words = ["--variant", variant.name]
    for option, command in (("--before", variant.prepare), ("--after", variant.stop)):
        words += [option, command] if command else []
    options, run = escape(shlex.join(words)), escape(variant.command)
    return f"{{native}} instructions {options} --out {{work}}/{COUNTED} --in {directory} -- {run}"
