"""One directory below the runs as an `Entry`: read in place, never followed out of it, never trusted.

A directory may be torn, foreign, still written to or of a newer contend: what is wrong with it is in the Entry, so that a
list of a thousand is not lost for one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contend.analysis.two_runs import MEASURED
from contend.document import SCHEMA_VERSION as OF_ANALYSIS
from contend.environment import HOST_KEYS
from contend.errors import BadInput, ContendError, ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.serve.files import fingerprint, is_plain, members, opened, read_file, size_of
from contend.store.damage import document, showable
from contend.store.directory import PLAN_FILE, SAMPLE_FILE, SCHEMA_VERSION, WATCH_FILE
from contend.store.file_shapes import sound_environment
from contend.store.ledger import is_locked
from contend.store.state import ledger_of
from contend.text.masking import mask, mask_value

REPORT = "report.html"
HEAD = 64 * 1024  # of findings.json: the answer and the design stand before the cells
TAIL = 4096  # of the ledger: its last event says how the run ended
LONGEST = 500  # characters of a title or an answer that a list shows
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

RUN, SAMPLE, WATCH, FOREIGN = "run", "sample", "watch", "foreign"
RUNNING, UNENDED = "running", "ended without a word"


@dataclass(frozen=True, slots=True)
class Cell:
    id: str
    label: str
    control: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One directory as the list shows it. `wrong` says what is the matter with it; nothing, where it is empty.

    question: a digest of what was asked, less how precisely; host: a digest of what makes a host the same one. Runs that
    share both are sessions of one thing. began: UTC, ISO 8601, or "".
    """

    name: str
    kind: str
    title: str = ""
    study: str = ""
    scenario: str = ""
    question: str = ""
    host: str = ""
    host_name: str = ""
    version: str = ""
    began: str = ""
    blocks: int | None = None
    answer: str = ""
    state: str = ""
    command: str = ""
    size_bytes: int = 0
    size_exact: bool = True
    has_report: bool = False
    wrong: tuple[str, ...] = ()
    whole: bool = False  # a run whose rows can be read: it can be compared, and has a place in a trend
    cells: tuple[Cell, ...] = ()
    metrics: tuple[str, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unsettled(self) -> bool:
        """True if its state can change without a file that changes: its owner may end, or take it up again."""
        return self.state in (RUNNING, UNENDED)

    @property
    def text(self) -> str:
        """The text that a search looks through."""
        texts = (self.name, self.title, self.study, self.scenario, self.answer, self.command, self.state)
        return "\n".join((*texts, *self.wrong)).lower()


def is_run_by_somebody(folder: Path, name: str) -> bool:
    """True if a running contend holds that run's ledger. Takes the lock for a moment: call it only for runs that may go
    on."""
    return is_locked(ledger_of(folder / name))


def read(folder: Path, name: str) -> Entry:
    """Read the directory `name` of `folder` as an Entry.

    Never raises for what is in it; raises OSError when the directory itself cannot be opened.
    """
    with opened(folder, name) as directory:
        names = {name for name, *_ in fingerprint(directory)}
        size, exact = size_of(folder / name)
        common: dict[str, Any] = {
            "name": name,
            "size_bytes": size,
            "size_exact": exact,
            "has_report": is_plain(directory, REPORT, names),
        }
        if PLAN_FILE in names or "trials.ndjson" in names:
            return _run(directory, names, common, lambda: is_run_by_somebody(folder, name))
        for kind, mark in ((SAMPLE, SAMPLE_FILE), (WATCH, WATCH_FILE)):
            if mark in names:
                return _recording(directory, kind, mark, common)
        why = (
            f"no run directory: it has neither {PLAN_FILE} nor a recording"
            if names
            else "an empty directory, or one of a run that is just beginning"
        )
        return Entry(kind=FOREIGN, wrong=(why,), **common)


def _run(directory: int, names: set[str], common: dict[str, Any], is_run: Callable[[], bool]) -> Entry:
    wrong: list[str] = []
    plan = _document(directory, PLAN_FILE, wrong)
    environment = _environment(directory, wrong)
    question = ""
    scenario: dict[str, Any] = {}
    if "scenario.yaml" in names:
        try:
            question, scenario = question_of(read_file(directory, "scenario.yaml").decode("utf-8", "replace"))
        except (OSError, ContendError) as error:
            wrong.append(f"scenario.yaml cannot be read: {error}")
    else:
        wrong.append("it has no scenario.yaml")
    findings = _findings(directory, wrong) if "findings.json" in names else {}
    began, ended = _ledger(directory, names, wrong)
    locked = not ended and is_plain(directory, "ledger.ndjson", names) and is_run()
    newest = ((plan, SCHEMA_VERSION), (environment, SCHEMA_VERSION), (findings, OF_ANALYSIS))
    newer = next((last for document, last in newest if _newer(document, last)), 0)
    if newer:
        wrong.append(f"written by a newer contend: schema_version {newer} is the last that this one reads")
    design = findings["design"] if isinstance(findings.get("design"), dict) else {}
    stopped = text(design.get("stopped", ""))
    if "ledger.ndjson" in names:
        state = RUNNING if locked else ended or UNENDED
    else:
        state = stopped if stopped not in ("", "not finished") else "unknown"
    if state == UNENDED:
        wrong.append(
            "no word of its end: killed, or its host went down (contend run --resume goes on with it)"
        )
    blocks, ends_whole, last = _last_trial(directory, names)
    if not locked and not ends_whole:
        wrong.append("trials.ndjson ends amid a line, which is left out")
    if not locked:
        blocks = _count(design.get("blocks"), blocks)
    cells = _cells(plan, wrong)
    return Entry(
        kind=RUN,
        title=text(findings.get("title") or scenario.get("title") or plan.get("scenario") or ""),
        study=text(scenario.get("study") or findings.get("study") or ""),
        scenario=text(plan.get("scenario") or scenario.get("title") or ""),
        question=question,
        host=_host(environment),
        host_name=_host_name(environment),
        version=text(environment.get("contend", "")),
        began=began,
        blocks=blocks,
        answer="" if locked else text(findings.get("answer", "")),
        state=state,
        command=text(plan.get("command", "")),
        wrong=tuple(map(mask, wrong)),
        whole=bool(cells)
        and bool(question)
        and bool(environment)
        and not newer
        and is_plain(directory, "trials.ndjson", names),
        cells=cells,
        metrics=_metrics(plan, last),
        environment=mask_value(environment),
        **common,
    )


def _recording(directory: int, kind: str, mark: str, common: dict[str, Any]) -> Entry:
    wrong: list[str] = []
    document = _document(directory, mark, wrong)
    environment = _environment(directory, wrong)
    if any(_newer(each) for each in (document, environment)):
        wrong.append(
            f"written by a newer contend: schema_version {SCHEMA_VERSION} is the last that this one reads"
        )
    command = document.get("line") or document.get("command") or ""
    if isinstance(command, list):
        command = " ".join(map(str, command))
    ended = bool(document.get("ended_utc"))
    return Entry(
        kind=kind,
        title=f"recording of contend {kind}",
        study=kind,
        host=_host(environment),
        host_name=_host_name(environment),
        version=text(environment.get("contend", "")),
        began=_utc(document.get("began_utc")),
        state="ended" if ended or not document or kind == WATCH else UNENDED,
        command=text(command),
        wrong=tuple(map(mask, wrong)),
        environment=mask_value(environment),
        **common,
    )


def _document(directory: int, name: str, wrong: list[str]) -> dict[str, Any]:
    try:
        value = document(read_file(directory, name))
    except FileNotFoundError:
        wrong.append(f"it has no {name}")
    except (OSError, ValueError, RecursionError) as error:
        wrong.append(f"{name} cannot be read: {error}")
    else:
        if isinstance(value, dict):
            return value
        wrong.append(f"{name} holds no JSON object")
    return {}


def _environment(directory: int, wrong: list[str]) -> dict[str, Any]:
    """The part of environment.json that fits."""
    environment, damaged = sound_environment(_document(directory, "environment.json", wrong))
    wrong.extend(f"environment.json, key {key}: {what}" for key, what in damaged)
    return environment


def _findings(directory: int, wrong: list[str]) -> dict[str, Any]:
    """The findings before the cells, which are the most of the file."""
    try:
        first = read_file(directory, "findings.json", head=HEAD)
        try:
            value = showable(members(first.decode("utf-8", "ignore"), until="cells"), first)
        except ValueError:
            value = document(read_file(directory, "findings.json"))
    except (OSError, ValueError, RecursionError) as error:
        wrong.append(f"findings.json cannot be read: {error}")
        return {}
    if not isinstance(value, dict):
        wrong.append("findings.json holds no JSON object")
        return {}
    return value


def text(value: Any) -> str:
    """A value as text for a line of a list, of a bounded length."""
    return mask(str(value).encode("utf-8", "replace").decode().replace("\0", ""))[:LONGEST]


def _ledger(directory: int, names: set[str], wrong: list[str]) -> tuple[str, str]:
    """When it began, and how the ledger says that it ended: "" where its last part tells no end."""
    if "ledger.ndjson" not in names:
        return _first_trial(directory, names), ""
    try:
        lines = read_file(directory, "ledger.ndjson", head=TAIL, tail=4 * TAIL).split(b"\n")
    except OSError as error:
        wrong.append(f"ledger.ndjson cannot be read: {error}")
        return "", ""
    began = ended = ""
    for line in lines:
        # Most rows say that a trial began: of those the first tells the time, and no other is looked at.
        if began and b'"run-end"' not in line and b'"run-start"' not in line:
            continue
        try:
            row = document(line)
        except ValueError:  # cut through by the ends of what was read, or torn
            continue
        if not isinstance(row, dict):
            continue
        began = began or _utc(row.get("utc"))
        if row.get("event") == "run-end":
            ended = text(row.get("stopped", "ended"))
        elif row.get("event") == "run-start":
            ended = ""
    return began, ended


def _first_trial(directory: int, names: set[str]) -> str:
    """When the first trial began, of what was imported and so has no ledger."""
    if "trials.ndjson" not in names:
        return ""
    try:
        row = document(read_file(directory, "trials.ndjson", head=HEAD).split(b"\n")[0])
        return _utc(row.get("utc")) if isinstance(row, dict) else ""
    except (OSError, ValueError):
        return ""


def _count(value: object, otherwise: int | None = None) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**31 else otherwise


def _utc(value: object) -> str:
    """A time that sorts with others, or ""."""
    return value[:29] if isinstance(value, str) and _UTC.match(value) else ""


def _last_trial(directory: int, names: set[str]) -> tuple[int | None, bool, dict[str, Any]]:
    """How many blocks came before that of the last row, whether the file ends with a whole row, and the last whole one."""
    if "trials.ndjson" not in names:
        return None, True, {}
    try:
        data = read_file(directory, "trials.ndjson", tail=4 * TAIL)
    except OSError:
        return None, False, {}
    for line in reversed(data.split(b"\n")):
        try:
            row = document(line)
        except ValueError:
            continue
        if isinstance(row, dict) and _count(row.get("block")) is not None:
            return (row["block"] if row.get("phase") == "counted" else 0), data.endswith(b"\n"), row
    return None, not data or data.endswith(b"\n"), {}


def _cells(plan: Mapping[str, Any], wrong: list[str]) -> tuple[Cell, ...]:
    if not plan:
        return ()
    try:
        return tuple(
            Cell(str(c["id"]), text(c.get("label") or c["id"]), bool(c["control"])) for c in plan["cells"]
        )
    except (KeyError, TypeError, AttributeError):
        wrong.append(f"{PLAN_FILE} names no cells")
        return ()


def _metrics(plan: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, ...]:
    """Names that its workloads can give, and those in a row of it: of what was imported there is no workload."""
    workloads = plan.get("workloads")
    per_workload = (
        [w.get("metrics") for w in workloads.values() if isinstance(w, dict)]
        if isinstance(workloads, dict)
        else []
    )
    names = {str(name) for metrics in per_workload if isinstance(metrics, dict) for name in metrics}
    measured = row.get("metrics")
    names |= {
        str(m.get("name")) for m in (measured if isinstance(measured, list) else []) if isinstance(m, dict)
    }
    return tuple(sorted(names))


@functools.lru_cache(maxsize=4096)
def question_of(text: str) -> tuple[str, dict[str, Any]]:
    """A digest of the question that a scenario asks, without how precisely, and the scenario. Kept: a thousand runs ask
    few things.

    Raises ContendError for what is no scenario file.
    """
    data = read_yaml(text, "scenario.yaml", ScenarioError).data
    if not isinstance(data, dict) or not isinstance(data.get("study"), str):
        raise BadInput("it names no study", hint="is this a run directory?")
    question = {k: v for k, v in data.items() if k not in MEASURED}
    return digest(json.dumps(question, sort_keys=True, default=str)), data


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _host(environment: Mapping[str, Any]) -> str:
    return digest(json.dumps([environment.get(key) for key in HOST_KEYS], default=str)) if environment else ""


def _host_name(environment: Mapping[str, Any]) -> str:
    """
    >>> _host_name({"cpus": 2, "cpu": "AMD EPYC", "memory_gib": 23.5, "machine": "11a897411791"})
    '2 CPUs AMD EPYC, 24 GiB, 11a897'
    """
    if not environment:
        return ""
    if "imported" in environment:
        return "a host that no file names"
    cpus, memory = environment.get("cpus"), environment.get("memory_gib")
    parts = (
        f"{cpus} CPU{'s' * (cpus != 1)} {environment.get('cpu', '')}".strip() if cpus else "",
        f"{memory:.0f} GiB" if isinstance(memory, int | float) else "",
        str(environment.get("machine", ""))[:6],
    )
    return ", ".join(part for part in parts if part)


def _newer(document: Mapping[str, Any], last: int = SCHEMA_VERSION) -> bool:
    version = document.get("schema_version", last)
    return not isinstance(version, int) or version > last
