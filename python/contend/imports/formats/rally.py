"""OpenStack Rally: `rally task results` (a list) and `rally task report --json` (info and tasks).

Source: rally, plugins/task/exporters/json_exporter.py (revision 1.2) and old_json_results.py, and task/runner.py for what
an iteration's `timestamp`, `duration` and `idle_duration` are. `created_at` of the older form has day and month exchanged,
so a storm's time is that of its first iteration.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from contend.errors import BadInput
from contend.imports.document import Document, Readings, Run, finite, flat, items
from contend.imports.json_text import Collectors
from contend.imports.source import Source
from contend.ranks import interpolated

MOST_ACTIONS = 1000
"""Names of atomic actions in one workload: Rally has a few."""


def is_mine(document: Any) -> bool:
    if isinstance(document, list):
        return bool(document) and all(
            isinstance(d, Mapping) and {"key", "result"} <= d.keys() for d in document
        )
    return isinstance(document, Mapping) and isinstance(document.get("tasks"), list) and "info" in document


class Iterations:
    """Figures of a workload's iterations, each of which is a fraction of a kilobyte of JSON."""

    def __init__(self) -> None:
        self.count = 0
        self.began_s, self.ended_s = math.inf, -math.inf
        self.durations = array("d")  # of those that did not fail
        self.actions: dict[str, array[float]] = {}
        self.error: Any = None  # of the first, where it failed
        self._wrong: Exception | None = None

    def add(self, item: Any) -> None:
        if self._wrong is not None:
            return
        self.count += 1
        try:
            self._add(item)
        except (BadInput, KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            self._wrong = error

    def whole(self, where: str) -> None:
        """Check that every iteration could be read. Raises BadInput for the first that could not."""
        if isinstance(self._wrong, BadInput):
            raise BadInput(
                f"{where}, iteration {self.count}{self._wrong.message}", hint=self._wrong.hint
            ) from self._wrong
        if self._wrong is not None:
            raise self._wrong

    def _add(self, item: Any) -> None:
        began = finite(item.get("timestamp"), "", "timestamp")
        took = finite(item.get("duration"), "", "duration")
        idle = finite(item.get("idle_duration", 0), "", "idle_duration")
        self.began_s, self.ended_s = min(self.began_s, began), max(self.ended_s, began + took + idle)
        error = item.get("error")
        if self.count == 1:
            self.error = error
        if error:
            return
        self.durations.append(took)
        for name, seconds in _of_one(item.get("atomic_actions") or (), ""):
            if name not in self.actions:
                if len(self.actions) >= MOST_ACTIONS:
                    raise BadInput(
                        f": more than {MOST_ACTIONS} atomic actions", hint="is it Rally's own output?"
                    )
                self.actions[name] = array("d")
            self.actions[name].append(seconds)


COLLECTORS: Collectors = {
    "[].result": Iterations,
    ".tasks[].subtasks[].workloads[].data": Iterations,
}


def read(source: Source) -> Document:
    document = source.document()
    runs: list[Run] = []
    if isinstance(document, list):
        for number, workload in enumerate(document, 1):
            where = f"{source.name}: workload {number}"
            key = workload["key"]
            keywords = key.get("kw", {})
            runner = dict(keywords.get("runner", {}))
            kind = str(runner.pop("type", "serial"))
            runs.append(_run(str(key["name"]), kind, runner, keywords.get("args"), workload, "result", where))
        return Document("", tuple(runs))
    if not is_mine(document):
        raise source.bad("it is no report of Rally", "rally task report --json --out FILE writes one")
    for task in items(document, "tasks", source.name):
        for subtask in items(task, "subtasks", source.name):
            for workload in items(subtask, "workloads", source.name):
                where = f"{source.name}: workload {workload.get('uuid', '')}".rstrip()
                ((name, args),) = workload["scenario"].items()
                ((kind, runner),) = workload["runner"].items()
                runs.append(_run(str(name), str(kind), runner or {}, args, workload, "data", where))
    return Document(str(document["info"].get("rally_version", "")), tuple(runs))


def _run(
    name: str,
    kind: str,
    runner: Mapping[str, Any],
    args: Any,
    workload: Mapping[str, Any],
    key: str,
    where: str,
) -> Run:
    settings = flat(runner, f"runner.{kind}") | flat(args or {}, "args")
    iterations = workload.get(key)
    if not isinstance(iterations, Iterations):
        items(workload, key, where)
        raise BadInput(f"{where}: '{key}' is not where Rally has it", hint="is it the tool's own output?")
    iterations.whole(where)
    if not iterations.count:
        return Run(name, settings, (), 0, error="it has no iteration")
    began, ended, good = iterations.began_s, iterations.ended_s, len(iterations.durations)
    if not good:
        why = iterations.error
        reason = ": ".join(str(x) for x in why[:2]) if isinstance(why, list) else str(why)
        failed = f"all iterations failed: {reason[:200]}"
        return Run(name, settings, (), iterations.count, began, ended, failed)
    readings = Readings(where, _loop(kind, runner))
    ordered = sorted(iterations.durations)
    readings.latency("duration_median", interpolated(ordered, 0.5), scale=1)
    readings.latency("duration_mean", math.fsum(ordered) / good, scale=1)
    for share in (90, 95):
        readings.latency(f"duration_p{share}", interpolated(ordered, share / 100), scale=1)
    for action, durations in iterations.actions.items():
        readings.latency(f"{action} median", interpolated(sorted(durations), 0.5), scale=1)
    readings.loop = ""
    load = workload.get("load_duration")
    readings.add("load_duration", load or ended - began, "s", "lower")
    readings.add("failed_iterations", 100 * (1 - good / iterations.count), "%", "lower")
    return Run(name, settings, readings.done(), iterations.count, began, ended)


def _loop(kind: str, runner: Mapping[str, Any]) -> str:
    """A batch that begins together waits for nothing; a runner that keeps its concurrency is a closed loop."""
    batch = kind == "constant" and runner.get("times") == runner.get("concurrency", 1)
    return "" if batch or kind == "rps" else "closed"


def _of_one(actions: Any, where: str) -> Iterator[tuple[str, float]]:
    """Outer actions only: what is nested lies inside them. A name that comes again is numbered, as Rally does."""
    if isinstance(actions, Mapping):
        for name, took in actions.items():
            if took is not None:  # it failed
                yield str(name), finite(took, where, str(name))
        return
    seen: dict[str, int] = {}
    for action in actions:
        name = str(action["name"])
        seen[name] = seen.get(name, 0) + 1
        if "finished_at" in action:
            began = finite(action.get("started_at"), where, f"{name} started_at")
            took = finite(action.get("finished_at"), where, f"{name} finished_at") - began
        else:
            took = action.get("duration", 0.0)
        yield name if seen[name] == 1 else f"{name} ({seen[name]})", finite(took, where, name)
