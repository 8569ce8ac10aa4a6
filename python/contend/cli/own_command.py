"""A command of the user's on a command line: after `--`, what is read of it, and beside whom it is measured."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from contend.errors import BadInput, suggest
from contend.text.command import command_name

if TYPE_CHECKING:
    from contend.workloads.spec import Metric

BUILTIN = {"wall": "s", "cpu": "s", "user": "s", "system": "s", "max_rss": "MiB"}
_METRIC = re.compile(
    r"^(?P<name>[a-z][a-z0-9_]*)(?::(?P<unit>[^:=]+))?(?::(?P<better>higher|lower))?=(?P<source>.+)$", re.S
)
_WORDS = "contend.own_command"
DEFAULT_SCENARIO = "noisy-neighbour"


class TakesCommand(click.Command):
    """A verb with a command of the user's after `--`, whose options are not the verb's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_WORDS] = tuple(args[cut + 1 :])
            args = args[:cut]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def given(option: str | None) -> str:
    """The user's command line, from behind `--` or from --command; "" where there is none. Raises BadInput."""
    context = click.get_current_context()
    if _WORDS not in context.meta:
        return option or ""
    words: tuple[str, ...] = context.meta[_WORDS]
    if option is not None:
        raise BadInput("there is a command after -- and one in --command", hint="give one of the two")
    if not words:
        raise BadInput("nothing follows --", hint=f"contend run {DEFAULT_SCENARIO} -- ./mine --flag")
    return line(words)


def line(words: Sequence[str]) -> str:
    """A command line of its words; one word with spaces is a command line already. Raises BadInput.

    >>> line(["./mine", "a b"]), line(["./mine --flag"])
    ("./mine 'a b'", './mine --flag')
    """
    if len(words) > 1:
        return shlex.join(words)
    try:
        parts = shlex.split(words[0])
    except ValueError as error:
        raise BadInput(f"cannot split the command '{words[0]}': {error}", hint="close the quote") from error
    if not parts:
        raise BadInput("a command is empty", hint="like ./mine --flag")
    return words[0]


def settings(scenario: str, command: str, beside: Sequence[str], metrics: Sequence[str]) -> tuple[str, ...]:
    """Settings by which a scenario measures the command. Raises BadInput where it cannot."""
    from contend.studies.registry import study_of
    from contend.studies.scenarios import load
    from contend.workloads.load import names

    loaded = load(scenario)
    catalogue = names()
    taken = set(catalogue)
    own = _reference(command, taken, catalogue)
    if metrics:
        own["command"]["metrics"] = {
            name: metric.model_dump(by_alias=True, exclude_defaults=True)
            for name, metric in map(parse_metric, metrics)
        }
    others = [each for text in beside for each in _beside(text, taken, catalogue)]
    values = study_of(loaded).measuring(loaded, own, others)
    return tuple(f"{key}={json.dumps(value)}" for key, value in values.items())


def _reference(command: str, taken: set[str], catalogue: Collection[str]) -> dict[str, dict[str, Any]]:
    """The command as a scenario names it, by a name that nothing else in it has."""
    name = command_name(command)
    if name in catalogue:
        name = f"my-{name}"
    number = 1
    while (unlike := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    taken.add(unlike)
    return {"command": {"run": command, "name": unlike}}


def _beside(text: str, taken: set[str], catalogue: Collection[str]) -> list[Any]:
    """Read one --beside: workloads with commas between them, one with parameters in braces, or a command."""
    if text.lstrip().startswith("{"):
        from contend.scenario.yaml_file import read_yaml

        return [read_yaml(text, "--beside", BadInput).data]
    if re.search(r"[\s/'\"]", text.strip()) and not text.endswith((".yaml", ".yml")):
        return [_reference(line([text]), taken, catalogue)]
    return [
        _reference(part, taken, catalogue) if part not in catalogue and shutil.which(part) else part
        for part in (part.strip() for part in text.split(","))
    ]


def parse_metric(text: str) -> tuple[str, Metric]:
    """
    >>> name, metric = parse_metric("rps:1/s:higher=Requests/sec: +([0-9.]+)")
    >>> name, metric.unit, metric.better, metric.pattern
    ('rps', '1/s', 'higher', 'Requests/sec: +([0-9.]+)')
    """
    from pydantic import ValidationError

    from contend.workloads.spec import Metric

    if text in BUILTIN:
        scale = 1 / 2**20 if text == "max_rss" else 1.0
        return text, Metric(builtin=text, unit=BUILTIN[text], better="lower", scale=scale)
    match = _METRIC.match(text)
    if match is None:
        near = suggest(text, BUILTIN)
        raise BadInput(
            f"--metric '{text}' is none of {', '.join(BUILTIN)}, nor NAME[:UNIT[:higher|lower]]=SOURCE",
            hint=near
            if near.startswith("did")
            else "like 'rps:1/s:higher=Requests/sec: +([0-9.]+)' or 'p99:s=$.latency.p99'",
        )
    source = match["source"]
    reader = {"path": source} if source.startswith("$") else {"pattern": source}
    better = match["better"] or "lower"
    try:
        return match["name"], Metric.model_validate(
            {"from": "stdout", "unit": match["unit"] or "", "better": better, **reader}
        )
    except ValidationError as error:
        first = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadInput(
            f"--metric '{text}': {first}",
            hint="a pattern has one (group) around the figure; a path begins with $",
        ) from error
