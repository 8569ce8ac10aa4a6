"""Placeholders: what a command's `{name}` stands for, and how a command becomes arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

PLACEHOLDERS: Mapping[str, str] = {
    "work": "directory of this workload in this run; prepare writes here, all trials share it",
    "out": "directory of this trial; the tool's output files go here",
    "seconds": "how long one trial should take, in whole or decimal seconds",
    "step_seconds": "its part for one command of `run`: seconds / number of commands",
    "step_ms": "the same in whole milliseconds",
    "step_whole_seconds": "the same rounded up to whole seconds, for tools that know no others",
    "cpus": "number of CPUs the victim may use",
    "cpu_list": "those CPUs, like 0,2-3",
    "port": "a free TCP port on the loopback address, the same for serve and run",
    "seed": "a number derived from the plan's seed, different for every trial",
    "layout": "number of this trial's layout, 0 to `layouts` - 1",
    "address": "address of the server: 127.0.0.1, or the server's end of the network pair",
    "cache": "directory of downloads, kept between runs: what `fetch` has put there",
    "native": "runs one of contend's own generators: `{native} pace …`",
    "parameters": "a JSON file of all parameters and placeholders, which contend's own generators read",
}

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z_][a-z0-9_]*)\}")


def placeholders(text: str) -> list[str]:
    """Names inserted by `{name}` in a command.

    >>> placeholders("fio --bs={block} '{{x}}'")
    ['block']
    """
    return [m[1] for m in _PLACEHOLDER.finditer(text) if m[1]]


def fill(command: str, values: Mapping[str, object]) -> tuple[str, ...]:
    """The command's arguments, split first and filled after, so that a value with spaces stays one argument.

    >>> fill("mytool --out {out}/r.json '{{}}'", {"out": "/tmp/a b"})
    ('mytool', '--out', '/tmp/a b/r.json', '{}')
    """
    arguments: list[str] = []
    for token in shlex.split(command):
        if token == "{native}":  # one placeholder that is several arguments
            arguments += str(values["native"]).split("\0")
            continue
        arguments.append(
            _PLACEHOLDER.sub(lambda m: {"{{": "{", "}}": "}"}.get(m[0]) or str(values[m[1]]), token)
        )
    return tuple(arguments)
