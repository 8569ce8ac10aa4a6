"""`--skip-missing`: a scenario less what cannot run here, and why."""

from __future__ import annotations

from typing import Any

from contend.checks import check
from contend.errors import CannotHonour
from contend.studies import Interference, Overhead, Scenario, Sensitivity, WorkloadRef


def without_missing(scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario less the workloads whose programs are not here, and what was left out, in words."""
    keys: tuple[str, ...] = ()
    if isinstance(scenario, Sensitivity):
        return _able(scenario)
    if isinstance(scenario, Interference):
        keys = "victims", "neighbours"
    elif isinstance(scenario, Overhead) and not scenario.app:
        keys = ("apps",)
    left_out: list[str] = []
    changes: dict[str, Any] = {}

    def is_here(ref: WorkloadRef, what: str) -> bool:
        alone = dict.fromkeys(keys, (ref,)) | ({"mixes": ()} if "victims" in keys else {})
        try:
            check(scenario.model_copy(update=alone))
        except CannotHonour as error:
            left_out.append(f"{what} {ref.workload}: {error.message} ({error.hint.split(';')[0]})")
            return False
        return True

    for key in keys:
        asked = getattr(scenario, key)
        kept = tuple(ref for ref in asked if is_here(ref, key[:-1]))
        if asked and not kept:
            raise CannotHonour(f"none of the {key} can run here", hint="; ".join(left_out))
        changes[key] = kept
    if isinstance(scenario, Interference):
        changes["mixes"] = tuple(
            mix for mix in scenario.mixes if all(is_here(ref, "mix with") for ref in mix)
        )
    return scenario.model_copy(update=changes), tuple(dict.fromkeys(left_out))


def _able(scenario: Sensitivity) -> tuple[Sensitivity, tuple[str, ...]]:
    """`without_missing` of a forecast: workloads and injectors by themselves."""
    left_out: list[str] = []

    def works(what: str, name: str, **only: Any) -> bool:
        try:
            check(scenario.model_copy(update={"workloads": (), "injectors": {}, **only}))
        except CannotHonour as error:
            left_out.append(f"{what} {name}: {error.message} ({error.hint.split(';')[0]})")
            return False
        return True

    workloads = tuple(ref for ref in scenario.workloads if works("workload", ref.workload, workloads=(ref,)))
    injectors = {
        resource: ref
        for resource, ref in scenario.injectors.items()
        if works("injector", ref.workload, injectors={resource: ref})
    }
    if len(workloads) < 2 or not injectors:
        what = "injector" if len(workloads) > 1 else "two of the workloads"
        raise CannotHonour(
            f"no {what} can run here" if what == "injector" else f"not {what} can run here",
            hint="; ".join(left_out),
        )
    return scenario.model_copy(update={"workloads": workloads, "injectors": injectors}), tuple(left_out)
