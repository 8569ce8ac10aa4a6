"""`{native} jenkins-build prepare | run | neighbour | finish`: a job of a Jenkins of the user's, built.

`prepare` looks whether it can be built, `run` builds it once, `neighbour` again and again, `finish` stops what is left.
"""

from __future__ import annotations

import argparse
import itertools
import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qsl

from contend.elsewhere import builds
from contend.elsewhere.builds import KIND, Build, Job
from contend.elsewhere.following import GoesOn, unheard
from contend.errors import BadInput, ContendError, HostFailed
from contend.ledger import Record, path_of
from contend.platforms import obedience
from contend.workloads.generators import verbs
from contend.workloads.generators.working import Working

NAME = "jenkins-build"


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.interruptible(_parser(), arguments)


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


def _prepare(given: argparse.Namespace) -> None:
    if not given.job:
        raise BadInput("no job is named", hint="parameters: {job: NAME}, or FOLDER/NAME")
    Job(given.job).check(_parameters(given.values))


def _run(given: argparse.Namespace) -> None:
    job = Job(given.job)
    with _record(given) as record:
        build = _once(given, job, record, given.out.name)
    told = {"schema_version": 1, **build._asdict(), "whole_s": build.whole_s}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "build.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _neighbour(given: argparse.Namespace) -> None:
    job = Job(given.job)
    with _record(given) as record, Working(given.out / "working") as working:
        for number in itertools.count():
            _once(given, job, record, f"{given.out.name} {number}", working.tell)


def _once(given: argparse.Namespace, job: Job, record: Record, of: str, goes_on: GoesOn = unheard) -> Build:
    """Raises HostFailed where the build fails; stops it where it is not waited for."""
    name = f"{given.work.name} {of}"
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


def _record(given: argparse.Namespace) -> Record:
    run: Path = given.run.resolve()
    return Record(path_of(run), run.name)


def _finish(given: argparse.Namespace) -> None:
    """Stop what a trial of this party that was killed has left."""
    run: Path = given.run.resolve()
    standing = obedience.judge(run)
    if isinstance(standing, obedience.ReadOnly):
        return
    with _record(given) as record:
        for row in standing.left():
            if row["kind"] == KIND and str(row["name"]).startswith(f"{given.work.name} "):
                builds.remove(row)
                record.removed(KIND, (str(row["name"]),))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="A job of a Jenkins, built.")
    subparsers = parser.add_subparsers(required=True, metavar="prepare | run | neighbour | finish")
    for name, act, about in (
        ("prepare", _prepare, "look whether it can be built"),
        ("run", _run, "build it once"),
        ("neighbour", _neighbour, "again and again"),
        ("finish", _finish, "stop what is left"),
    ):
        verb = subparsers.add_parser(name, help=about)
        verb.set_defaults(run_verb=act)
        verb.add_argument("--run", type=Path, required=True, help="the run's directory, with its ledger")
        verb.add_argument("--work", type=Path, required=True, help="the party's directory in its run")
        verb.add_argument("--job", required=True, help="its name; FOLDER/NAME where it is in a folder")
        verb.add_argument("--values", default="", help="parameters of the build, like TARGET=vmlinux&JOBS=4")
        if act in (_run, _neighbour):
            verb.add_argument("--out", type=Path, required=True)
            verb.add_argument("--within", type=float, default=3600.0, help="seconds that a build may take")
    return parser
