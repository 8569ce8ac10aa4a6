"""The victim of an experiment on what runs here: whose figure is asked, read or followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from contend.errors import BadInput, TrialFailed

if TYPE_CHECKING:
    from contend.contention.tenants import Tenant

Command = TypeVar("Command", bound=Callable[..., Any])
FIGURES = ("url", "metrics", "log", "command")
"""Options that say where a figure is from; of a victim without one, its processes are followed."""
WITH = {"rate": "url", "series": "metrics", "pattern": "log", "unit": "log"}
"""Options, and the one that each goes with."""


def figure_options(command: Command) -> Command:
    """Add the options that say where a victim's figure is from."""
    for option in reversed(
        (
            click.option(
                "--url",
                metavar="URL",
                help="Ask the victim here, at a fixed rate: its p99 latency is the figure.",
            ),
            click.option(
                "--rate", type=float, metavar="N", help="With --url: requests a second (default: 50)."
            ),
            click.option(
                "--metrics",
                metavar="URL",
                help="Read the figure where it is exported, as text of OpenMetrics or Prometheus.",
            ),
            click.option(
                "--series",
                metavar="SERIES",
                help="With --metrics: a histogram, counter or gauge, with labels: 'http_seconds{path=\"/cart\"}'.",
            ),
            click.option(
                "--log", metavar="FILE", help="Read the figure in the lines that are written to a log."
            ),
            click.option(
                "--pattern",
                metavar="REGEX",
                help="With --log: its (group) is a time, as 'took ([0-9.]+) ms'; without one lines are counted.",
            ),
            click.option(
                "--unit",
                type=click.Choice(["s", "ms", "us", "ns"]),
                help="With --log: of the times in it (default: s).",
            ),
            click.option(
                "--figure",
                metavar="METRIC",
                help="Which of the victim's metrics the answer is about, as latency_p50 (default: the first that the page"
                " shows). A p99 of few requests varies much.",
            ),
        )
    ):
        command = option(command)
    return command


def victim_workload(victim: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Say in a scenario who the victim is: the workload that asks, reads or follows it, and a process of it where that is
    known. Raises BadInput."""
    figure = _figure(options)
    if not victim and figure in ("log", "command"):
        whose = f"whose log is {options['log']}?" if figure == "log" else "whom does the command ask?"
        raise BadInput(
            whose,
            hint=f"name the victim: contend prove shop.service {'--log …' if figure == 'log' else '-- COMMAND'}",
        )
    named = {"pid": _root(victim)} if victim and figure not in ("", "url") else {}
    return {"victim": _workload(figure, victim, options), **named}


def _workload(figure: str, victim: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if figure == "url":
        rate = options.get("rate")
        return {"service": {"url": options["url"]} | ({} if rate is None else {"rate": rate})}
    if figure == "metrics":
        return _exported(options["metrics"], options.get("series"))
    if figure == "log":
        return _logged(options["log"], options.get("pattern"), options.get("unit"))
    if figure == "command":
        return {"command": options["command"]}
    if not victim:
        raise BadInput(
            "no victim is named",
            hint="contend prove shop.service --against …, or --url http://127.0.0.1:8080/",
        )
    return {"process": {"pid": _root(victim)}}


def _figure(options: Mapping[str, Any]) -> str:
    """The option that says where the figure is from, "" for none. Raises BadInput for two, or an option of another."""
    given = [name for name in FIGURES if options.get(name) is not None]
    if len(given) > 1:
        words = ["a command" if name == "command" else f"--{name}" for name in given]
        raise BadInput(f"{words[0]} and {words[1]} are two figures", hint="give one of the two")
    for name, of in WITH.items():
        if options.get(name) is not None and of not in given:
            raise BadInput(
                f"--{name} {options[name]} goes with --{of}",
                hint={
                    "url": "--url http://127.0.0.1:8080/ --rate 50",
                    "metrics": "--metrics http://127.0.0.1:9100/metrics --series NAME",
                    "log": "--log FILE --pattern 'took ([0-9.]+) ms'",
                }[of],
            )
    return given[0] if given else ""


def watched(victim: str, options: Mapping[str, Any]) -> Tenant:
    """Whom to watch. Raises BadInput where that is nobody here, or options do not fit."""
    from contend.contention.tenants import Tenant, tenant
    from contend.platforms import procfs
    from contend.workloads.generators.listeners import servers

    url = options.get("url")
    _figure(options)
    if url is not None:
        roots = servers(url)
        pids = {pid for root in roots for pid in (root, *procfs.descendants(root))}
        who = Tenant(victim or url, (), frozenset(pids))
    elif victim:
        who = tenant(victim)
    else:
        raise BadInput(
            "no victim is named", hint="contend prove shop.service, or --url http://127.0.0.1:8080/"
        )
    if not who.pids:
        raise BadInput(
            f"nobody here serves {who.name}, whom to watch", hint="--against names whom to hold back"
        )
    return who


def _exported(url: str, series: str | None) -> dict[str, Any]:
    from contend.workloads.generators.exported import Series, kind_of

    if series is None:
        raise BadInput(f"--metrics {url} needs a series", hint="--series NAME; curl shows what is exported")
    try:
        kind = kind_of(url, Series.parse(series))
    except TrialFailed as error:  # nothing was begun
        raise BadInput(error.message, hint=error.hint) from error
    return {f"exported-{kind}": {"metrics": url, "series": series}}


def _logged(log: str, pattern: str | None, unit: str | None) -> dict[str, Any]:
    from pathlib import Path

    from contend.workloads.generators.logged import compiled

    if pattern is None:
        raise BadInput(f"--log {log} needs a pattern", hint="--pattern 'took ([0-9.]+) ms'")
    groups = min(compiled(pattern, groups=0).groups, 1)
    compiled(pattern, groups=groups)  # of more than one it is not known which is the time
    file = Path(log).absolute()
    if not file.is_file():
        raise BadInput(f"{log} is no file", hint="a log that is written to; journalctl -f > FILE makes one")
    options = {"log": str(file), "pattern": pattern}
    if not groups:
        if unit is not None:
            raise BadInput(f"--unit {unit}: '{pattern}' has no (group) that is a time", hint="leave it out")
        return {"logged-count": options}
    return {"logged-time": options | ({} if unit is None else {"unit": unit})}


def _root(victim: str) -> int:
    """The process that a victim's others descend from. Raises BadInput."""
    from contend.contention.tenants import tenant
    from contend.platforms import procfs

    statuses = {status.pid: status for status in procfs.processes(tenant(victim).pids)}
    roots = [status for status in statuses.values() if status.ppid not in statuses]
    if not roots:
        raise BadInput(f"{victim} has no process that could be followed", hint="--url asks it instead")
    return min(roots, key=lambda status: status.start_ticks).pid
