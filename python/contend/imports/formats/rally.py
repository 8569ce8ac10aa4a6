"""OpenStack Rally: `rally task results` (a list) and `rally task report --json` (info and tasks).

Source: rally, plugins/task/exporters/json_exporter.py (revision 1.2) and old_json_results.py, and task/runner.py for what
an iteration's `timestamp`, `duration` and `idle_duration` are. `created_at` of the older form has day and month exchanged,
so a storm's time is that of its first iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contend.imports.document import Document, Readings, Run, finite, flat, items, percentile
from contend.imports.source import Source

ABOUT = (
    "a workload of a task is one run: its iterations are jobs of one storm, share its queues and its cloud, and are no"
    " replicates. Several tasks are. What Rally waits for by polling holds the pauses between its polls"
)


def is_mine(document: Any) -> bool:
    if isinstance(document, list):
        return bool(document) and all(
            isinstance(d, Mapping) and {"key", "result"} <= d.keys() for d in document
        )
    return isinstance(document, Mapping) and isinstance(document.get("tasks"), list) and "info" in document


def read(source: Source) -> Document:
    document = source.document()
    runs: list[Run] = []
    if isinstance(document, list):
        for number, workload in enumerate(document, 1):
            where = f"{source.name}: workload {number}"
            key = workload["key"]
            asked = key.get("kw", {})
            runner = dict(asked.get("runner", {}))
            kind = str(runner.pop("type", "serial"))
            runs.append(_run(str(key["name"]), kind, runner, asked.get("args"), workload, "result", where))
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
    iterations = items(workload, key, where)
    if not iterations:
        return Run(name, settings, (), 0, error="it has no iteration")
    began = [finite(i.get("timestamp"), where, "timestamp") for i in iterations]
    took = [finite(i.get("duration"), where, "duration") for i in iterations]
    idle = [finite(i.get("idle_duration", 0), where, "idle_duration") for i in iterations]
    ended = max(b + t + i for b, t, i in zip(began, took, idle, strict=True))
    good = [i for i in iterations if not i.get("error")]
    if not good:
        why = iterations[0]["error"]
        said = ": ".join(str(x) for x in why[:2]) if isinstance(why, list) else str(why)
        return Run(
            name, settings, (), len(iterations), min(began), ended, f"all iterations failed: {said[:200]}"
        )
    told = Readings(where, _loop(kind, runner))
    ordered = sorted(float(i["duration"]) for i in good)
    told.latency("duration_median", percentile(ordered, 0.5), scale=1)
    told.latency("duration_mean", sum(ordered) / len(ordered), scale=1)
    for share in (90, 95):
        told.latency(f"duration_p{share}", percentile(ordered, share / 100), scale=1)
    actions = _actions(good, where)
    for action, durations in actions.items():
        told.latency(f"{action} median", percentile(sorted(durations), 0.5), scale=1)
    told.loop = ""
    load = workload.get("load_duration")
    told.add("load_duration", load or ended - min(began), "s", "lower")
    told.add("failed_iterations", 100 * (1 - len(good) / len(iterations)), "%", "lower")
    return Run(name, settings, told.done(), len(iterations), min(began), ended)


def _loop(kind: str, runner: Mapping[str, Any]) -> str:
    """A batch that begins together waits for nothing; a runner that keeps its concurrency is a closed loop."""
    batch = kind == "constant" and runner.get("times") == runner.get("concurrency", 1)
    return "" if batch or kind == "rps" else "closed"


def _actions(iterations: Sequence[Mapping[str, Any]], where: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for iteration in iterations:
        for name, took in _of_one(iteration.get("atomic_actions") or (), where):
            found.setdefault(name, []).append(took)
    return found


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
