"""What verbs make of a run with a damaged file."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from contend import cli
from contend.cli.common import shown
from contend.errors import ContendError
from contend.serve.index import Filter, Index
from contend.serve.pages import Pages
from contend.store import damage
from support.damaged_ways import WAYS

EXIT_CODES = {0, 1, 2, 3, 4, 5}
# A report needs these of a run; without one it says so and ends with exit code 2.
NEEDED = {"plan.json", "scenario.yaml", "sample.json", "recording.json"}
SECONDS = 60
# Of these nothing is left to be measured, or nothing ever is.
RESUMED = {"ab", "imported", "sample", "watch"}


class TooLong(BaseException):
    """A verb did not end. No handler of contend's may catch it."""


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


__all__ = ["Damaged", "damaged", "failures", "shown", "tried"]
