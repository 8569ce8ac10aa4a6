"""`{native} jenkins-build prepare | run | neighbour | finish`: a job of a Jenkins of the user's, built.

`prepare` looks whether it can be built, `run` builds it once, `neighbour` again and again, `finish` stops what is left.
"""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qsl

from contend.elsewhere import builds
from contend.elsewhere.builds import KIND, Build, GoesOn, Job, unheard
from contend.errors import BadInput, ContendError, HostFailed
from contend.platforms import obedience
from contend.store.ledger import Record
from contend.store.state import record_of
from contend.workloads.generators import verbs
from contend.workloads.generators.working import Working
from contend.workloads.parameters_file import Placeholders


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload jenkins-build."""

    job: str
    values: str
    within: float


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.interruptible(
        arguments,
        Parameters,
        {"prepare": _prepare, "run": _run, "neighbour": _neighbour, "finish": _finish},
    )


def _parameters(text: str) -> dict[str, str]:
    """Raises BadInput.

    >>> _parameters("TARGET=vmlinux&JOBS=4")
    {'TARGET': 'vmlinux', 'JOBS': '4'}
    """
    try:
        return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=True)) if text else {}
    except ValueError:
        raise BadInput(
            f"'{text}' are no parameters of a build", hint="values: TARGET=vmlinux&JOBS=4, as in an address"
        ) from None


def _prepare(given: Parameters, at: Placeholders) -> None:
    if not given.job:
        raise BadInput("no job is named", hint="parameters: {job: NAME}, or FOLDER/NAME")
    Job(given.job).check(_parameters(given.values))


def _run(given: Parameters, at: Placeholders) -> None:
    job = Job(given.job)
    with record_of(at.run) as record:
        build = _once(given, at, job, record, at.out.name)
    document = {"schema_version": 1, **build._asdict(), "whole_s": build.whole_s}
    (at.out / "build.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _neighbour(given: Parameters, at: Placeholders) -> None:
    job = Job(given.job)
    with record_of(at.run) as record, Working(at.out / "working") as working:
        for number in itertools.count():
            _once(given, at, job, record, f"{at.out.name} {number}", working.tell)


def _once(
    given: Parameters, at: Placeholders, job: Job, record: Record, of: str, goes_on: GoesOn = unheard
) -> Build:
    """Raises HostFailed where the build fails; stops it where it is not waited for."""
    name = f"{at.work.name} {of}"
    record.intend(KIND, (name,), job=job.name, url=job.url)
    queued = job.ask_for(_parameters(given.values))
    try:
        record.created(KIND, name, queue=str(queued))
        build = job.follow(queued, given.within, goes_on)
    except BaseException:
        with suppress(ContendError):  # it stays in the ledger
            job.stop(queued)
            record.removed(KIND, (name,))
        raise
    record.removed(KIND, (name,))
    if build.result != "SUCCESS":
        raise HostFailed(
            f"build {build.number} of '{job.name}' ended as {build.result}",
            hint=f"see its console at {job.url}",
        )
    return build


def _finish(given: Parameters, at: Placeholders) -> None:
    """Stop what a trial of this party that was killed has left."""
    standing = obedience.judge(at.run)
    if isinstance(standing, obedience.ReadOnly):
        return
    with record_of(at.run) as record:
        for row in standing.left():
            if row["kind"] == KIND and str(row["name"]).startswith(f"{at.work.name} "):
                builds.remove(row)
                record.removed(KIND, (str(row["name"]),))
