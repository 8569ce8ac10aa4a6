"""Runs of every study, made without measuring, and a thousand ways to damage a file of one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import cli
from contend.cli.common import shown
from contend.errors import ContendError
from contend.imports.read import read_files
from contend.imports.write import write_run
from contend.serve.index import Filter, Index
from contend.serve.pages import Pages
from contend.store import damage
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from support import ctrace_files as c
from support import foreign_files
from support.made_context import DOWNLOAD, IMAGE, RPC, costs_run, storms_run
from support.made_fleets import made_run as fleet_run
from support.made_forecast import forecast_run
from support.made_growths import growth_run
from support.made_placement import MadePlacement
from support.made_runs import Made
from support.made_samples import made_sample
from support.made_sweeps import one_pool
from support.made_watches import recorded
from support.report_series import write_series

EXIT_CODES = {0, 1, 2, 3, 4, 5}
AB = """
study: compare
title: Which command is faster?
variants: [{name: A, command: 'true'}, {name: B, command: 'true'}]
measure: {blocks: BLOCKS, target: null, pilot: 1}
"""
# A report needs these of a run; without one it says so and ends with exit code 2.
OVERHEAD = """
study: overhead
title: What does a container cost?
apps: [mpi-prime]
sizes: [1]
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""
NEEDED = {"plan.json", "scenario.yaml", "sample.json", "recording.json"}
SECONDS = 60
# Of these nothing is left to be measured, or nothing ever is.
RESUMED = {"ab", "imported", "sample", "watch"}


class TooLong(BaseException):
    """A verb did not end. No handler of contend's may catch it."""


def shelf(place: Path) -> dict[str, Path]:
    """One small run of each kind, by name."""
    made: dict[str, Path] = {}

    def keep(name: str, run: Path) -> None:
        (place / "shelf").mkdir(exist_ok=True)
        shutil.copytree(run, place / "shelf" / name)
        made[name] = place / "shelf" / name

    interference = Made(place / "a", 4, {"ffmpeg|stress-cpu": 2.0}, {})
    rows = interference.run.rows()
    timed = [
        {**row, "started_ns": (10 + 2 * n) * 10**9, "ended_ns": (11 + 2 * n) * 10**9}
        for n, row in enumerate(rows)
    ]
    interference.run.close()
    interference.run.write_text("trials.ndjson", "".join(json.dumps(row) + "\n" for row in timed))
    write_series(interference.run.series, timed)
    _diary(interference.run)
    keep("interference", interference.run.path)
    keep("rpc", costs_run(place / "b", {"ends_cpu": 0.8}, text=RPC, blocks=4).path)
    keep("download", costs_run(place / "c", {"client_cpu": 0.5}, text=IMAGE, base=DOWNLOAD, blocks=4).path)
    keep("storm", storms_run(place / "d", {"API": 0.2, "database": 0.1}, storms=3).path)
    forecast, _ = forecast_run(place / "e", blocks=2)
    forecast.close()
    _diary(forecast)
    keep("forecast", forecast.path)
    placement = MadePlacement(place / "f", blocks=3)
    placement.run.close()
    keep("placement", placement.run.path)
    (place / "g").mkdir()
    one_pool(place / "g")
    keep("sweep", next((place / "g").iterdir()))
    (place / "h").mkdir()
    fleet = fleet_run(place / "h", {"a": 1.2, "b": 1.3, "c": 1.25}, blocks=3, clocks=True)
    fleet.close()
    _diary(fleet)
    keep("fleet", fleet.path)
    keep("sample", made_sample(place / "i", 10, stacks=True).path)
    files = [foreign_files.write(place / f"j/{n}", foreign_files.fio(1000 + n)) for n in range(4)]
    keep("imported", write_run(read_files(files), place / "j" / "runs", "").path)
    overhead = Made(
        place / "k", 3, {"mpi-prime|container pinned 1 CPU": 1.1}, {},
        environment={"cpus": 2}, text=OVERHEAD,
    )  # fmt: skip
    overhead.run.close()
    keep("overhead", overhead.run.path)
    (place / "l").mkdir()
    watch, _ = recorded(place / "l" / "watch", 4)
    watch.write_text("environment.json", json.dumps({"cpus": 2, "cpu": "Made CPU", "os": "Made Linux 1"}))
    keep("watch", watch.path)
    growth = growth_run(place / "m")
    keep("growth", growth.path)
    keep("traced", _traced(place / "n").path)
    commands = Made(place / "o", 2, {}, {}, text=AB, environment={"cpus": 2}).run
    commands.close()
    _diary(commands)
    keep("ab", commands.path)
    return made


def _traced(place: Path) -> RunDirectory:
    """A run of a command whose counted trials were traced."""
    run = Made(place, 2, {}, {}, text=AB, environment={"cpus": 2}).run
    rows = run.rows()
    run.close()
    for row in rows:
        if row["phase"] == "counted":
            row["trace"] = f"traces/{row['trial']:06d}"
            traced(c.Made(100 + row["trial"])).save(_made(run.path / row["trace"]))
    run.write_text("trials.ndjson", "".join(json.dumps(row) + "\n" for row in rows))
    return run


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def traced(file: c.Made) -> c.Made:
    """Two jobs that wait for each other's lock and call something in between."""
    ms = 1_000_000
    file.track(1, c.PROCESS, "service")
    file.lock(1, c.LOCK, "the lock", "app.py:7")
    job, work = file.string("job"), file.string("work")
    for ring, begin in ((2, 0), (3, 5)):
        file.track(ring, c.THREAD, f"worker {ring}", parent=1, tid=ring)
        at = [n * ms for n in range(begin, begin + 40, 5)]
        file.events(ring, [
            c.event(at[0], c.JOB_BEGIN, job, ring), c.event(at[0] + 1, c.BEGIN, work),
            c.event(at[1], c.LOCK_WAIT, 1), c.event(at[2], c.LOCK_ACQUIRED, 1), c.event(at[4], c.LOCK_RELEASED, 1),
            c.event(at[5], c.END, work), c.event(at[6], c.JOB_END, job, ring),
        ])  # fmt: skip
    file.sync(50 * ms, 50 * ms)
    file.end(60 * ms)
    return file


def _diary(run: RunDirectory) -> None:
    """A ledger of a run that ended well."""
    with Ledger(run.ledger_path) as ledger:
        ledger.event("run-start", run=run.id, pid=2**22 + 1, resumed=0)
        ledger.intend("cgroup", f"contend.{run.id}/victim")
        ledger.created("cgroup", f"contend.{run.id}/victim")
        ledger.event("pilot", rounds=2, spiky=0.1)
        ledger.removed("cgroup", f"contend.{run.id}/victim")
        ledger.event("probe-cost", probe="contend-probe", samples=10, cpu_ns=10**6, bpf_ns=0)
        ledger.event("run-end", stopped="planned blocks done", finished=3)


# ---- damage

Way = Callable[[Path, random.Random, Path], None]


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Way:
    def way(path: Path, chance: random.Random, outside: Path) -> None:
        path.write_bytes(change(path.read_bytes(), chance))

    return way


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 30))):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Way:
    return _bytes(lambda data, chance: b"".join(change(data.splitlines(keepends=True), chance)))


def _swap(lines: list[bytes], chance: random.Random) -> list[bytes]:
    chance.shuffle(lines)
    return lines


def _double(lines: list[bytes], chance: random.Random) -> list[bytes]:
    at = chance.randrange(len(lines) + 1)
    return lines[:at] + lines[:at][-3:] + lines[at:]


def _drop(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line for line in lines if chance.random() < 0.7]


def _tear(lines: list[bytes], chance: random.Random) -> list[bytes]:
    at = chance.randrange(len(lines)) if lines else 0
    return [line[: chance.randrange(len(line))] if n == at else line for n, line in enumerate(lines)]


WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, float("nan"), float("inf"), "", "\ud800", "a\0b", "../../../etc", "/etc/passwd", [], {}, [[]],
    {"a": []}, "x" * 5000, [None], {"": None}, 1.5, "1", "\x1b]0;owned\x07",
)  # fmt: skip


def _retyped(value: Any, chance: random.Random) -> Any:
    """The same with something in it of another type, or gone."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.2:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _retyped(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], _retyped(value[at], chance), *value[at + 1 :]]
    return chance.choice(WRONG)


def _retype(data: bytes, chance: random.Random) -> bytes:
    try:
        return json.dumps(_retyped(json.loads(data), chance)).encode("utf-8", "replace")
    except ValueError:
        pass
    lines = data.splitlines()
    for _ in range(chance.choice((1, 1, 5))):
        if lines:
            at = chance.randrange(len(lines))
            with contextlib.suppress(ValueError):
                lines[at] = json.dumps(_retyped(json.loads(lines[at]), chance)).encode("utf-8", "replace")
    return b"\n".join(lines) + b"\n"


def _replaced(make: Callable[[Path, Path], None]) -> Way:
    def way(path: Path, chance: random.Random, outside: Path) -> None:
        path.unlink()
        make(path, outside)

    return way


def _half_link(path: Path, outside: Path) -> None:
    """The file whole, and a link where a writer might put its half."""
    path.write_bytes(b"")
    path.with_name(f".{path.name}.part").symlink_to(outside / "secret")


WAYS: Mapping[str, Way] = {
    "truncated": _bytes(lambda data, chance: data[: chance.randrange(len(data) + 1)]),
    "bytes flipped": _bytes(_flip),
    "rows swapped": _lines(_swap),
    "rows doubled": _lines(_double),
    "rows dropped": _lines(_drop),
    "a row torn": _lines(_tear),
    "another type": _bytes(_retype),
    "another type too": _bytes(_retype),
    "and another": _bytes(_retype),
    "empty": _bytes(lambda data, chance: b""),
    "NUL": _bytes(lambda data, chance: bytes(len(data))),
    "nested": _bytes(lambda data, chance: b"[" * 100_000),
    "nested objects": _bytes(lambda data, chance: b'{"a":' * 50_000 + b"\n" + data),
    "no UTF-8": _bytes(lambda data, chance: data.replace(b"a", b"\xff", 3)),
    "a long number": _bytes(
        lambda data, chance: data.replace(b": 1", b": " + b"1" * 5000, 1).replace(b":1", b":" + b"9" * 400, 1)
    ),
    "random": _bytes(lambda data, chance: chance.randbytes(200)),
    "gone": _replaced(lambda path, outside: None),
    "a directory": _replaced(lambda path, outside: path.mkdir()),
    "a FIFO": _replaced(lambda path, outside: os.mkfifo(path)),
    "a link to a secret": _replaced(lambda path, outside: path.symlink_to(outside / "secret")),
    "a link to rows": _replaced(lambda path, outside: path.symlink_to(outside / "torn.ndjson")),
    "a link to /dev/zero": _replaced(lambda path, outside: path.symlink_to("/dev/zero")),
    "a link to itself": _replaced(lambda path, outside: path.symlink_to(path.name)),
    "a link to nothing": _replaced(lambda path, outside: path.symlink_to(outside / "absent")),
    "half": _replaced(_half_link),
}


@dataclass(frozen=True)
class Damaged:
    """One way that a run was damaged. seed: makes it again."""

    seed: int
    kind: str
    file: str
    way: str
    run: Path
    outside: Path

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.kind}, {self.file}: {self.way}"


def damaged(shelf: Mapping[str, Path], seed: int, place: Path) -> Damaged:
    """A copy of a run of the shelf below `place`, with one file of it damaged."""
    chance = random.Random(seed)
    kind = chance.choice(sorted(shelf))
    run = place / "runs" / kind
    shutil.copytree(shelf[kind], run)
    for other in shelf:  # beside it, for what compares or puts it into another
        if other != kind and other in ("interference", "storm"):
            shutil.copytree(shelf[other], place / "runs" / other)
    outside = place / "outside"
    outside.mkdir()
    (outside / "secret").write_text("a secret\n" * 3 + "and a torn last line")
    (outside / "torn.ndjson").write_text('{"event": "run-start", "at_ns": 1}\n{"event": "ru')
    files = sorted(path for path in run.rglob("*") if path.is_file())
    # Every kind of file as likely as another one.
    kinds = sorted(
        {path.name if path.parent == run else f"{path.relative_to(run).parts[0]}/" for path in files}
    )
    wanted = chance.choice(kinds)
    file = chance.choice(
        [p for p in files if (p.name if p.parent == run else f"{p.relative_to(run).parts[0]}/") == wanted]
    )
    way = chance.choice(sorted(WAYS))
    WAYS[way](file, chance, outside)
    return Damaged(seed, kind, str(file.relative_to(run)), way, run, outside)


# ---- verbs

SQL = (
    "select count(*) from trials", "select * from metrics limit 5", "select * from evidence limit 5", "select * from ledger",
    "select count(*) from cpu", "select * from process_use limit 3", "describe trials",
)  # fmt: skip


def verbs(at: Damaged, chance: random.Random) -> list[list[str]]:
    """What to run over a damaged run: its report, and some of the others."""
    run, other = str(at.run), str(at.run.parent / ("storm" if at.kind == "interference" else "interference"))
    forms = ("csv", "parquet", "latex", "junit", "openmetrics", "perfetto", "chrome", "folded")
    others = [
        ["report", run],
        ["sql", run, chance.choice(SQL)],
        ["sql", run, chance.choice(SQL), "--json"],
        ["compare", run, str(shelf_of(at, at.kind))],
        ["compare", other, run],
        ["advise", run, "--json"],
        ["export", run, "--to", chance.choice(forms)],
        ["export", run, "--to", chance.choice(forms)],
        ["context", run, "--of", str(at.run.parent / "storm")],
        ["context", run, "--of", run],
        ["hunt", run],
        ["hunt", run, "--json"],
        ["sql", run, "select count(*) from jobs"],
        *([["run", "--resume", run, "--budget", "1s"]] * 2 if at.kind in RESUMED else []),
        ["whatif", run, "--jobs", "40"],
        ["list", "runs", "--runs", str(at.run.parent)],
        ["destroy", run],
        ["validate", f"{run}/scenario.yaml"],
        ["run", "--dry-run", f"{run}/scenario.yaml"],
    ]  # fmt: skip
    return [["report", run, "--json"], *chance.sample(others, 4)]


def shelf_of(at: Damaged, kind: str) -> Path:
    """Another run of that kind, undamaged, beside it where there is one."""
    beside = at.run.parent / kind
    return beside if beside != at.run else at.run.parent / "interference"


@dataclass(frozen=True)
class Ended:
    """How a verb ended. wrong: what it did that none may; "" where it did well."""

    words: list[str]
    code: int
    out: str
    err: str
    wrong: str = ""


def tried(words: list[str], seconds: float = SECONDS) -> Ended:
    """Run a verb in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    code, wrong = -1, ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.run(words)
    except TooLong:
        wrong = f"did not end within {seconds:g} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
        wrong = f"raised {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    text = out.getvalue() + err.getvalue()
    if not wrong and code not in EXIT_CODES:
        wrong = f"exit code {code}"
    if not wrong and ("mistake in contend itself" in text or "Traceback" in text):
        wrong = next(line for line in text.splitlines() if "mistake" in line or "Traceback" in line)
    if not wrong and code and "hint:" not in text:
        wrong = "an error without a hint"
    if not wrong and "\x1b]" in text:
        wrong = "a stranger's terminal sequence got through"
    return Ended(words, code, out.getvalue(), err.getvalue(), wrong)


def _too_long(*_: object) -> None:
    raise TooLong


def contents(place: Path) -> dict[str, tuple[int, bytes]]:
    """Every plain file below, to see whether any was touched."""
    return {
        str(p): (p.lstat().st_mode, p.read_bytes() if p.is_file() and not p.is_symlink() else b"")
        for p in sorted(place.rglob("*"))
    }


def failures(shelf: Mapping[str, Path], seed: int, place: Path) -> Iterator[str]:
    """Damage a run by that seed, run verbs over it, and say what none of them may do."""
    place.mkdir(parents=True)
    at = damaged(shelf, seed, place)
    was = contents(at.outside)
    for words in verbs(at, random.Random(seed + 1)):
        end = tried(words)
        what = end.wrong
        if not what and words[0] == "report" and end.code and Path(at.file).name not in NEEDED:
            what = f"no report (exit code {end.code})"
        if not what and contents(at.outside) != was:
            what = "it wrote outside the run directory"
        if what:
            yield f"{at}: contend {' '.join(words)}: {what}\n{end.err[-600:]}"
    index = Index(at.run.parent)
    try:
        listing = index.page(Filter())
        names = {entry.name for entry in listing.entries}
        if at.kind not in names:
            yield f"{at}: serve: the run is not listed"
        for entry in listing.entries:
            index.figures(entry)
            index.alike(entry)
        yield from _pages(at, index)
    except Exception as error:  # noqa: BLE001
        yield f"{at}: serve: raised {type(error).__name__}: {error}"
    finally:
        index.close()
    shutil.rmtree(place)


def _pages(at: Damaged, index: Index) -> Iterator[str]:
    """Pages of `contend serve` about that run, asked for as a browser does."""
    other = "storm" if at.kind == "interference" else "interference"
    asked: list[tuple[list[str], dict[str, list[str]]]] = [
        ([""], {}),
        (["run", at.kind], {}),
        (["run", at.kind, "report.html"], {}),
        (["compare"], {"first": [at.kind], "second": [other]}),
        (["trend"], {}),
    ]
    for entry, _ in index.groups():
        cells = [(cell.id, metric) for cell in entry.cells[:1] for metric in entry.metrics[:1]]
        asked += [
            (
                ["trend"],
                {"question": [entry.question], "host": [entry.host], "cell": [cell], "metric": [metric]},
            )
            for cell, metric in cells
        ]
    pages = Pages(index)
    for parts, query in asked:
        with contextlib.suppress(ContendError), damage.noting():  # the server shows it, with its hint
            answer = pages.answer(parts, query)
            if answer.status >= 500:
                yield f"{at}: serve: /{'/'.join(parts)}: {answer.status}"
            if answer.file >= 0:
                os.close(answer.file)


__all__ = ["Damaged", "damaged", "failures", "shelf", "shown", "tried"]
