"""Results as OpenStack Rally exports them, made from known durations.

Written after its exporters, json_exporter.py (revision 1.2) and old_json_results.py; what these themselves write of such
tasks is read alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC


def _iteration(number: int, duration: float, at: float, error: bool, old: bool) -> dict[str, Any]:
    began = at + number * 0.25
    boot, delete = 0.75 * duration, 0.25 * duration
    actions: Any = (
        {"nova.boot_server": boot, "nova.delete_server": None if error else delete}
        if old
        else [
            {
                "name": "nova.boot_server", "started_at": began, "finished_at": began + boot,
                "children": [{"name": "nova.show_server", "started_at": began, "finished_at": began + 1, "children": []}],
            },
            {
                "name": "nova.delete_server", "started_at": began + boot, "finished_at": began + duration, "children": [],
            },
        ]
    )  # fmt: skip
    return {
        "timestamp": began,
        "duration": duration,
        "idle_duration": 0.0,
        "error": ["TimeoutException", "Rally tired waiting", "Traceback"] if error else [],
        "output": {"additive": [], "complete": []},
        "atomic_actions": actions,
    }


def rally_old(
    durations: Sequence[float], *, at: float = NOON, concurrency: int | None = None, failed: int = 0
) -> list[dict[str, Any]]:
    """`rally task results`: one workload."""
    times = len(durations)
    runner = {"type": "constant", "times": times, "concurrency": concurrency or times}
    return [
        {
            "key": {
                "name": "NovaServers.boot_and_delete_server",
                "description": "Boot and delete a server.",
                "pos": 0,
                "kw": {
                    "args": {"flavor": {"name": "m1.tiny"}},
                    "runner": runner,
                    "context": {"users@openstack": {"tenants": 1}},
                    "sla": {},
                    "hooks": [],
                },
            },
            "result": [_iteration(n, d, at, n < failed, old=True) for n, d in enumerate(durations)],
            "sla": [],
            "hooks": [],
            "load_duration": max(durations) + 1,
            "full_duration": max(durations) + 9,
            "created_at": "2026-01-01T12:00:00",
        }
    ]


def rally_report(
    tasks: Sequence[Sequence[float]], *, at: float = NOON, concurrency: int | None = None, failed: int = 0
) -> dict[str, Any]:
    """`rally task report --json`: a task each, with one workload."""

    def workload(number: int, durations: Sequence[float]) -> dict[str, Any]:
        began = at + 100 * number
        times = len(durations)
        return {
            "uuid": f"workload-{number}",
            "description": "Boot and delete a server.",
            "runner": {"constant": {"times": times, "concurrency": concurrency or times}},
            "hooks": [],
            "scenario": {"NovaServers.boot_and_delete_server": {"flavor": {"name": "m1.tiny"}}},
            "min_duration": min(durations),
            "max_duration": max(durations),
            "start_time": began * 1000,
            "load_duration": max(durations) + 1,
            "full_duration": max(durations) + 9,
            "statistics": {"durations": {}},
            "data": [_iteration(n, d, began, n < failed, old=False) for n, d in enumerate(durations)],
            "failed_iteration_count": failed,
            "total_iteration_count": times,
            "contexts": {"users@openstack": {"tenants": 1}},
            "position": 0,
            "pass_sla": True,
            "sla_results": {"sla": []},
            "sla": {},
        }

    return {
        "info": {"rally_version": "5.1.0", "generated_at": "2026-01-01T13:00:00", "format_version": "1.2"},
        "tasks": [
            {
                "uuid": f"task-{number}",
                "title": "Boots",
                "status": "finished",
                "tags": [],
                "env_uuid": "env",
                "env_name": "cloud",
                "created_at": "2026-01-01T12:00:00",
                "pass_sla": True,
                "subtasks": [
                    {"uuid": "subtask", "title": "Boots", "workloads": [workload(number, durations)]}
                ],
            }
            for number, durations in enumerate(tasks)
        ],
    }
