"""The choice of the boot storm that a component's cost is put into: the named one, else the newest beside the run."""

from __future__ import annotations

from pathlib import Path

from contend.context.costs import costs, is_cost
from contend.context.effect import context
from contend.context.storm import boots, newest
from contend.document.context import IMAGE, RPC, Context
from contend.errors import BadInput, ContendError
from contend.store.directory import RunDirectory
from contend.studies.model import Scenario


def put(
    run: RunDirectory, of: str | Path | None, *, calls: float | None = None, image: int | None = None
) -> Context:
    """Put the run's costs into that storm, or into the newest beside it. calls, image: as in `effect.context`.

    Raises BadInput for runs of other studies, unfinished ones, and where the storm tells no share.
    """
    known = costs(run)
    if calls is not None and known.kind != RPC:
        raise BadInput(f"--calls: {run.id} is not of RPCs", hint="--image SIZE is what each boot downloads")
    if image is not None and known.kind != IMAGE:
        raise BadInput(
            f"--image: {run.id} is not of downloads", hint="--calls N is how many RPCs a boot makes"
        )
    if of is not None:
        return context(known, boots(RunDirectory.open(of)), directory=str(of), calls=calls, image=image)
    errors = []
    for path in newest(run.path.parent):
        try:
            return context(known, boots(RunDirectory(path)), directory=str(path), calls=calls, image=image)
        except BadInput as error:
            errors.append(error)
    if errors:
        raise errors[0]
    raise BadInput(
        f"no boot storm lies beside {run.id}",
        hint="--of RUN names one; contend run boot-storm makes one",
    )


def beside(run: RunDirectory, scenario: Scenario) -> Context | None:
    """The context for a report, where nobody requested one: None where there is nothing to say."""
    if not is_cost(scenario):
        return None
    try:
        return put(run, None)
    except (ContendError, OSError, KeyError, ValueError):
        return None
