"""A worker's part for a coordinator: begin this host's part of a run, hand over its rows and files, end it.

`Host` is a plugin of dask's worker; the functions below it are what the coordinator has workers run, by `Client.run`. All
of them can be asked again: beginning what goes on changes nothing, rows are asked for by their number.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from contend import environment
from contend.engine.removal import REMOVERS
from contend.errors import BadInput, ContendError
from contend.files import last_line
from contend.fleet import folders
from contend.fleet.part import directory_of
from contend.names import check_name
from contend.platforms.destroy import destroy_run
from contend.store.ledger import is_locked
from contend.store.state import ledger_of

if TYPE_CHECKING:
    from distributed import Worker

PLUGIN = "contend-host"
CHUNK_BYTES = 2**20
LOOK_S = 0.2
GRACE_S = 30.0  # for an interrupted orchestrator to tear down by itself


@dataclass
class Part:
    """This host's part of one run."""

    folder: Path
    process: asyncio.subprocess.Process | None = None
    reader: asyncio.Task[None] | None = None
    ready: int = 0  # the block it waits to begin
    notes: list[str] = field(default_factory=list)
    ended: dict[str, Any] | None = None
    late_ns: list[int] = field(default_factory=list)
    requested_at: float = 0.0
    offsets: list[int] = field(default_factory=lambda: [0])  # of lines of trials.ndjson, in bytes
    beginning: asyncio.Lock = field(default_factory=asyncio.Lock)  # asked for twice, it begins once

    def rows(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """Rows from number `after` on, and how many there are in all."""
        run = directory_of(self.folder)
        path = None if run is None else run / "trials.ndjson"
        if path is None or not path.exists():
            return [], 0
        with path.open("rb") as file:
            file.seek(self.offsets[-1])
            for line in file:
                if not line.endswith(b"\n"):
                    break  # being written just now
                self.offsets.append(self.offsets[-1] + len(line))
            total = len(self.offsets) - 1
            if after >= total:
                return [], total
            file.seek(self.offsets[after])
            text = file.read(self.offsets[total] - self.offsets[after])
        return [json.loads(line) for line in text.splitlines()], total

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None


class Host(WorkerPlugin):
    """The parts of runs on this host. It outlives workers: one that loses its scheduler is followed by another."""

    name = PLUGIN

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.host = folder, name
        self.parts: dict[str, Part] = {}
        self.leaving = False

    def part(self, run: str) -> Part:
        check_name("run id", run)
        if run not in self.parts:
            self.parts[run] = Part(folders.parts() / run)
        return self.parts[run]

    async def end(self, part: Part) -> list[str]:
        """Interrupt what runs, wait until it has torn down, and remove what it could not. Returns what is left."""
        process = part.process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGINT)
            try:
                await asyncio.wait_for(process.wait(), GRACE_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        if part.reader is not None:
            await asyncio.wait([part.reader], timeout=5)
        return await asyncio.to_thread(remove_left, part.folder)

    async def end_all(self) -> None:
        await asyncio.gather(*(self.end(part) for part in self.parts.values()))

    async def watch(self, lost_s: float) -> None:
        """End what no coordinator has asked for since `lost_s`: it is gone, and nobody would stop the load."""
        while True:
            await asyncio.sleep(min(1.0, lost_s / 4))
            for part in list(self.parts.values()):
                if part.running and time.monotonic() - part.requested_at > lost_s:
                    part.notes.append(f"nobody asked for rows for {lost_s:g} s: interrupted")
                    await self.end(part)


def remove_left(folder: Path) -> list[str]:
    """Remove what a part's runs left on this host, by their ledgers. Returns what could not be removed."""
    failed = []
    for directory in folder.glob("run/*"):
        ledger = ledger_of(directory)
        if not ledger.exists():
            continue
        settle(ledger)
        try:
            report = destroy_run(directory, REMOVERS, force=is_locked(ledger))
        except ContendError as error:
            failed.append(error.message)
        else:
            failed += [f"{item.kind} {item.name}: {item.why}" for item in report.failed]
    return failed


def settle(ledger: Path) -> None:
    """Wait for a run that is ending and tearing down: its worker was killed, or was just asked to end."""
    deadline = time.monotonic() + GRACE_S
    while is_locked(ledger) and time.monotonic() < deadline:
        time.sleep(0.05)


def _host(worker: Worker) -> Host:
    host = worker.plugins[PLUGIN]
    assert isinstance(host, Host)
    return host


async def reading() -> int:
    """This host's CLOCK_MONOTONIC, in ns."""
    return time.monotonic_ns()


async def prepare(run: str, spec: Mapping[str, Any], dask_worker: Worker) -> dict[str, Any]:
    """Write what a part is made from; returns what keeps it from running here.

    spec: scenario (YAML), command, together, workloads {file name: text}.
    """
    part = _host(dask_worker).part(run)
    workloads = part.folder / "config/contend/workloads"
    folders.write(part.folder / "scenario.yaml", spec["scenario"])
    folders.write(part.folder / "command", spec["command"])
    folders.write(part.folder / "fleet", _host(dask_worker).folder.name)
    for name, text in spec["workloads"].items():
        folders.write(workloads / Path(name).name, text)
    process = await asyncio.create_subprocess_exec(
        *_words(part.folder, "--check"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=_environment(part.folder, spec),
        cwd=part.folder,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        last = (err.decode(errors="replace").splitlines() or ["nothing"])[-1]
        return {"problems": [f"its contend failed with exit status {process.returncode}: {last}", ""]}
    return {"problems": json.loads(out), "part": _identity(part)}


async def begin(run: str, spec: Mapping[str, Any], dask_worker: Worker) -> dict[str, Any]:
    """Start this host's part, or go on with what an earlier worker left of it; what runs is left alone."""
    part = _host(dask_worker).part(run)
    part.requested_at = time.monotonic()
    async with part.beginning:
        if not part.running:
            await _start(part, spec)
    part.requested_at = time.monotonic()
    return {"part": _identity(part)}


async def _start(part: Part, spec: Mapping[str, Any]) -> None:
    part.ended, part.ready, part.offsets = None, 0, [0]
    await asyncio.to_thread(_wait_for_last, part)
    errors = (part.folder / "errors").open("ab")
    with errors:
        part.process = await asyncio.create_subprocess_exec(
            *_words(part.folder, *(["--together"] if spec["together"] else [])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(part.folder, spec),
            cwd=part.folder,
            # Of a terminal's Ctrl-C the worker is told too, and passes it on once.
            start_new_session=True,
        )
    part.reader = asyncio.create_task(_listen(part))


def _wait_for_last(part: Part) -> None:
    """An earlier worker's orchestrator ends with it, which takes its tear-down."""
    directory = directory_of(part.folder)
    if directory is not None:
        settle(ledger_of(directory))


async def _listen(part: Part) -> None:
    """Take what the part says until it has ended."""
    process = part.process
    assert process is not None and process.stdout is not None
    while line := await process.stdout.readline():
        message = json.loads(line)
        if "ready" in message:
            part.ready = int(message["ready"])
        elif "began" in message:
            part.late_ns.append(int(message["late_ns"]))
        elif "note" in message:
            part.notes.append(str(message["note"]))
        else:
            part.ended = message
    code = await process.wait()
    if part.ended is None:
        last = last_line(part.folder / "errors")
        killed = f"signal {-code}" if code < 0 else f"exit status {code}"
        part.ended = {"failed_with": f"its orchestrator ended with {killed}: {last}", "hint": "", "code": 1}


async def pull(
    run: str, after: int, known: int, wait_s: float, least_s: float, dask_worker: Worker
) -> dict[str, Any]:
    """Rows from number `after` on; waits up to `wait_s` for one, and at least `least_s` for more to share the answer.

    known: the block that the coordinator knows this part to wait for.
    """
    part = _host(dask_worker).part(run)
    began = part.requested_at = time.monotonic()
    while True:
        ended = part.ended  # before the rows: of a part that has ended all are there
        waited = time.monotonic() - began
        news = ended is not None or part.ready != known
        if news or waited >= min(least_s, wait_s):  # before that, files are not even looked at
            rows, total = part.rows(after)
            if news or rows or waited > wait_s:
                break
        await asyncio.sleep(min(LOOK_S, max(wait_s - waited, 0.01)))
    notes, part.notes = part.notes, []
    late_ns, part.late_ns = part.late_ns, []
    part.requested_at = time.monotonic()
    reply = {"part": _identity(part), "after": after, "rows": rows, "total": total, "ended": ended}
    return {**reply, "ready": part.ready, "notes": notes, "late_ns": late_ns, "running": part.running}


async def go(run: str, block: int, at_ns: int, dask_worker: Worker) -> None:
    """Begin the block at that moment of this host's clock, ns."""
    part = _host(dask_worker).part(run)
    if part.ready and part.ready <= block and part.running:
        assert part.process is not None and part.process.stdin is not None
        part.ready = 0
        part.process.stdin.write(json.dumps({"block": block, "at_ns": at_ns}).encode() + b"\n")
        await part.process.stdin.drain()


async def end(run: str, dask_worker: Worker) -> None:
    """End this host's part in order; its rows stay, and it can be begun again."""
    host = _host(dask_worker)
    await host.end(host.part(run))


async def files(run: str, dask_worker: Worker) -> list[tuple[str, int]]:
    """Names and sizes of the files of the part's run directory; none before there is one."""
    directory = directory_of(_host(dask_worker).part(run).folder)
    if directory is None:
        return []
    paths = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted((str(path.relative_to(directory)), path.stat().st_size) for path in paths)


async def chunk(run: str, name: str, offset: int, dask_worker: Worker) -> bytes:
    """Read a piece of a file of the part's run directory, of CHUNK_BYTES at most."""
    directory = directory_of(_host(dask_worker).part(run).folder)
    assert directory is not None
    path = directory / name
    if not path.resolve().is_relative_to(directory.resolve()):
        raise BadInput(f"'{name}' is not in the run directory", hint="a mistake of ours")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(CHUNK_BYTES)


async def fingerprint() -> dict[str, Any]:
    """Describe this machine."""
    return await asyncio.to_thread(environment.fingerprint)


async def forget(run: str, dask_worker: Worker) -> list[str]:
    """Remove the part's directory: the coordinator has all of it. Returns what is left of the part on this host: its
    directory stays then, since the ledger in it says how to remove that."""
    host = _host(dask_worker)
    part = host.part(run)
    left = await host.end(part)
    if not left:
        shutil.rmtree(part.folder, ignore_errors=True)
        host.parts.pop(run, None)
    return left


async def leave(dask_worker: Worker) -> None:
    """End all parts and, once this has been answered, the worker."""
    host = _host(dask_worker)
    host.leaving = True
    await host.end_all()
    asyncio.get_running_loop().call_later(
        0.2, lambda: asyncio.ensure_future(dask_worker.close(reason="left"))
    )


def _identity(part: Part) -> str:
    """The name of the run directory, which no second one has; "" before there is one."""
    directory = directory_of(part.folder)
    return "" if directory is None else directory.name


def _words(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-P", "-m", "contend.fleet.part", str(folder), *more]


def _environment(folder: Path, spec: Mapping[str, Any]) -> dict[str, str]:
    """Workload files of the starting machine's user take the place of this host's."""
    own = {"XDG_CONFIG_HOME": str(folder / "config")} if spec["workloads"] else {}
    return {**os.environ, **own}
