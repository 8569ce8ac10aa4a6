"""`{native} terasort-cluster prepare | run | neighbour | finish`: Hadoop's sort on a cluster of the user's.

`prepare` makes a directory of the run's on the cluster's file system, `run` makes, sorts and checks rows below it and
removes them, `neighbour` does that again and again, `finish` removes the directory.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.elsewhere import hadoop
from contend.elsewhere.builds import GoesOn, unheard
from contend.elsewhere.hadoop import EXAMPLES, KIND, SHELL, Cluster
from contend.errors import ContendError, HostFailed
from contend.store.state import record_of
from contend.workloads.generators import verbs
from contend.workloads.generators.working import Working
from contend.workloads.parameters_file import Placeholders

DIRECTORY = "cluster-directory"
ROW_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload terasort-cluster."""

    conf: str
    directory: str
    rows: int
    maps: int
    reduces: int
    heap: int
    release: str
    within: float


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.interruptible(
        arguments,
        Parameters,
        {"prepare": _prepare, "run": _run, "neighbour": _neighbour, "finish": _finish},
    )


def _cluster(given: Parameters, at: Placeholders, scratch: Path) -> Cluster:
    return Cluster(Path(given.conf).expanduser(), at.work / "lib", scratch, given.heap)


def _prepare(given: Parameters, at: Placeholders) -> None:
    cluster = _cluster(given, at, at.work)
    directory = hadoop.new_directory(given.directory, at.run.name)
    # Where terasort.sh keeps Hadoop's client when the run's own files are gone: by it a crash is cleaned up after.
    kept = at.cache / f"hadoop-client-{given.release}"
    with record_of(at.run) as record:
        record.intend(KIND, (directory,), conf=str(cluster.conf), lib=str(kept.resolve()))
        (at.work / DIRECTORY).write_text(directory, encoding="utf-8")
        cluster.make(directory)
        if cluster.yarn:  # which is to be there before anything is measured
            cluster.end_jobs(Path(directory).name)


def _run(given: Parameters, at: Placeholders) -> None:
    document = _once(given, at, _cluster(given, at, at.out), f"trial-{at.out.name}")
    (at.out / "terasort.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _neighbour(given: Parameters, at: Placeholders) -> None:
    cluster = _cluster(given, at, at.out)
    with Working(at.out / "working") as working:
        while True:
            _once(given, at, cluster, f"neighbour-{secrets.token_hex(4)}", working.tell)


def _once(
    given: Parameters, at: Placeholders, cluster: Cluster, name: str, goes_on: GoesOn = unheard
) -> dict[str, Any]:
    """Run the three programs. Raises HostFailed where one fails, or rows are out of order or missing."""
    whole = (at.work / DIRECTORY).read_text(encoding="utf-8")
    tag, directory = Path(whole).name, f"{whole}/{name}"
    made, ordered, report = f"{directory}/made", f"{directory}/sorted", f"{directory}/report"
    programs = {
        "teragen": (f"-Dmapreduce.job.maps={given.maps}", str(given.rows), made),
        "terasort": (f"-Dmapreduce.job.reduces={given.reduces}", made, ordered),
        "teravalidate": (ordered, report),
    }
    document: dict[str, Any] = {"schema_version": 1, "rows": given.rows, "file_system": cluster.file_system}
    cpu_s: list[float | None] = []
    remove = (SHELL, "-rm", "-r", "-f", "-skipTrash", directory)
    try:
        for program, arguments in programs.items():
            done = cluster.run(
                EXAMPLES, *arguments, program=program, tag=tag, timeout_s=given.within, log=f"{program}.log", goes_on=goes_on
            )  # fmt: skip
            document[f"{program}_s"] = done.seconds
            cpu_s.append(done.cpu_s)
        _check(cluster, ordered, report, given.rows)
    except BaseException:
        with suppress(ContendError):  # what went wrong first is what is to be told
            cluster.end_jobs(tag)
            cluster.run(*remove)
        raise
    cluster.run(*remove)
    document["wall_s"] = sum(document[f"{program}_s"] for program in programs)
    if None not in cpu_s:
        document["tasks_cpu_s"] = sum(value for value in cpu_s if value is not None)
    return document


def _check(cluster: Cluster, ordered: str, report: str, rows: int) -> None:
    """A report of rows in order is a checksum alone: each that is out of order has an entry of its own."""
    text = cluster.run(SHELL, "-cat", f"{report}/part-r-*").out
    if wrong := next((line for line in text.splitlines() if line.startswith("error")), ""):
        raise HostFailed(f"rows are out of order: {wrong}", hint="the cluster's sort is wrong")
    if not text.startswith("checksum"):
        raise HostFailed("no checksum of the sorted rows", hint=f"teravalidate said: {text[:80]!r}")
    sizes = cluster.run(SHELL, "-du", f"{ordered}/part-*").out.splitlines()
    size = sum(int(line.split()[0]) for line in sizes)
    if size != rows * ROW_BYTES:
        raise HostFailed(
            f"{size} bytes were sorted, not {rows * ROW_BYTES}", hint="see terasort.log of the trial"
        )


def _finish(given: Parameters, at: Placeholders) -> None:
    note = at.work / DIRECTORY
    if not note.exists():
        return
    directory = note.read_text(encoding="utf-8")
    with record_of(at.run) as record:
        _cluster(given, at, at.work).remove(directory)
        record.removed(KIND, (directory,))
    note.unlink()
