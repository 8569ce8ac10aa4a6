"""Checks that commands, revisions and clouds of a comparison are there, and which of its variants can run here."""

from __future__ import annotations

import subprocess

from contend.clouds.login import find, speaks_https
from contend.errors import CannotHonour, ContendError, ScenarioError
from contend.platforms.packages import install_command
from contend.studies.compare.model import Compare, Variant
from contend.workloads import install
from contend.workloads.instance import Instance, resolve
from contend.workloads.load import load as load_workload


def check(scenario: Compare) -> None:
    """Check that programs, revisions and clouds of the comparison exist. Raises BadInput."""
    if scenario.workload:
        _check_cloud(scenario)
    else:
        revisions(scenario)


def fitted(scenario: Compare) -> tuple[Compare, tuple[str, ...]]:
    """The comparison without the variants that need something this host lacks; the baseline stays."""
    if not scenario.workload:
        return scenario, ()
    workload = load_workload(scenario.workload)
    instances = [resolve(workload, {**scenario.parameters, **v.parameters}) for v in scenario.variants]
    proxied = {cloud for i in instances if (cloud := _cloud_behind_a_proxy(i)) is not None}
    direct = {cloud for cloud in proxied if _speaks_https(cloud)}  # one login each
    kept, left_out = [], []
    for variant, instance in zip(scenario.variants, instances, strict=True):
        absent = install.needed(workload, instance.parameters)
        if absent and variant is not scenario.variants[0]:
            left_out.append(f"variant {variant.name}: {', '.join(absent)} is not installed")
        elif _cloud_behind_a_proxy(instance) in direct and variant is not scenario.variants[0]:
            left_out.append(f"variant {variant.name}: the cloud's Glance speaks HTTPS itself")
        else:
            kept.append(variant)
    if len(kept) < 2:
        raise CannotHonour("no variant can be compared on this host", hint="; ".join(left_out))
    return scenario.model_copy(update={"variants": tuple(kept)}), tuple(left_out)


def _cloud_behind_a_proxy(instance: Instance) -> str | None:
    """The cloud before whose Glance a TLS proxy is put; None where none is."""
    parameters = instance.parameters
    return str(parameters.get("cloud", "")) if parameters.get("scheme") == "tls-proxy" else None


def _speaks_https(cloud: str) -> bool:
    """True if the cloud's Glance does, without a proxy. False where nobody answers: the run says what is wrong."""
    try:
        return speaks_https(cloud, "image")
    except ContendError:
        return False


def revisions(scenario: Compare) -> dict[str, str]:
    """The commit of each variant that has a revision, by its name.

    Raises ScenarioError for one that the variant's repository does not have, CannotHonour without git.
    """
    return {variant.name: _commit(variant) for variant in scenario.variants if variant.rev}


def _commit(variant: Variant) -> str:
    commit = f"{variant.rev}^{{commit}}"
    try:
        done = subprocess.run(
            ["git", "-C", variant.directory, "rev-parse", "--verify", "--quiet", commit],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise CannotHonour("comparing revisions needs git", hint=install_command("git")) from error
    if done.returncode != 0:
        where = f"the repository at {variant.directory}"
        raise ScenarioError(
            f"'{variant.rev}' is no commit in {where}"
            if not done.stderr
            else f"{variant.directory} is in no git repository",
            hint="git log --oneline -5 shows the latest; a tag or branch will do"
            if not done.stderr
            else "run it inside the repository",
        )
    return done.stdout.strip()


def _check_cloud(scenario: Compare) -> None:
    """The cloud of a workload that speaks to one must be described."""
    workload = load_workload(scenario.workload)
    if "cloud" in workload.parameters:
        find(str(scenario.parameters.get("cloud", workload.parameters["cloud"].default)))
