"""A workload is a file: how to install it, run it, and read its figures.

The models here are the file format. They know nothing of hosts, runs or statistics. Commands are split like
a shell would split them and run without a shell (write `sh -c '…'` where one is wanted); `{name}` inserts a
parameter or one of PLACEHOLDERS, `{{` a brace.
"""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_validator

from contend.errors import suggest
from contend.scenario.yaml_file import MisplacedError
from contend.workloads.parts import (
    Duration,
    File,
    Install,
    Lines,
    Metric,
    Neighbour,
    Parameter,
    Resource,
    Scalar,
    Serve,
    Stop,
    Strict,
    Traced,
    lists,
)
from contend.workloads.placeholders import PLACEHOLDERS, placeholders

_NAME = r"[a-z_][a-z0-9_]*"
_FILE_SCHEMA = {
    "anyOf": [{"type": "string"}]
    + [
        {
            "type": "object",
            "properties": {k: {"type": "string"}},
            "required": [k],
            "additionalProperties": False,
        }
        for k in ("text", "beside")
    ]
}


class Workload(Strict):
    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str = ""
    about: str = ""
    install: Install = Install()
    parameters: dict[str, Parameter] = {}
    # `@name@` inserts a parameter or placeholder that is the same in every trial; braces stay
    files: dict[str, Annotated[File, WithJsonSchema(_FILE_SCHEMA)]] = {}
    fetch: Lines = ()  # run once before `prepare`, on the bare host: downloads, into {cache}, which platforms do not see
    prepare: Lines = ()
    finish: Lines = ()  # run once after the last trial: ends what prepare has started
    before: str | None = None  # run before every trial, outside the measured window: restart a service, clear
    directory: str = ""  # where commands run; {work} when empty
    env: dict[str, str] = {}
    serve: Serve | None = None
    run: Lines  # one command, or several run one after the other
    neighbour: Neighbour = Neighbour()
    stop: Stop = Stop()
    metrics: dict[str, Metric]  # the first is the one shown when there is room for one
    dominant: Resource
    trial: Duration
    preparing: Duration = (
        0  # what `fetch` and `prepare` take together, roughly, on a host that has the downloads
    )
    around: Duration = 0  # what a trial takes beside that: processes that start, connections
    timeout: Duration | None = Field(None, gt=0)  # of each command of a trial; else 30 s and 20 times `trial`
    trace: Traced = Traced()  # what is recorded of it where a scenario asks for traces
    keep: Lines = ()  # files below {out} that stay with the run, in outputs/TRIAL; others are read and thrown away
    # by turns commands run with so many environments of different sizes, and so places of their stack; 0: with one
    layouts: int = Field(0, ge=0, le=64)
    elsewhere: bool = False  # others do the work (a cloud's services): CPU they use here disturbs nothing
    # pair: serve and run each in a network namespace, joined by a veth; host: on this host's loopback, as without it;
    # {name}: as that parameter says
    network: str = Field("", pattern=rf"^(|host|pair|\{{{_NAME}\}})$")
    origin: str = Field("", exclude=True)  # the file it came from, for messages and for `beside`

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        return lists(value, "run", "fetch", "prepare", "finish", "keep")

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if not self.metrics:
            raise MisplacedError("a workload needs at least one metric", ("metrics",))
        if not self.run:
            raise MisplacedError("a workload needs a command to run", ("run",))
        if self.network and self.serve is None:
            raise MisplacedError(f"network: {self.network} needs a server ('serve')", ("network",))
        if self.network[:1] == "{":
            parameter = self.parameters.get(self.network[1:-1])
            if parameter is None or not parameter.choices or set(parameter.choices) - {"host", "pair"}:
                hint = "parameters: {network: {default: host, choices: [host, pair]}}"
                raise MisplacedError(
                    f"'network: {self.network}' is no parameter with the choices host and pair",
                    ("network",),
                    hint,
                )
        if self.trial <= 0:
            raise MisplacedError("'trial' must be longer than nothing", ("trial",))
        if self.neighbour.intensity and not _is_share(self.parameters.get(self.neighbour.intensity)):
            hint = "parameters: {intensity: {default: 100, min: 1, max: 100}}"
            raise MisplacedError(
                f"'intensity: {self.neighbour.intensity}' is no parameter from 1 to 100 with the default 100",
                ("neighbour", "intensity"),
                hint,
            )
        for name in self.parameters:
            if name in PLACEHOLDERS:
                raise MisplacedError(
                    f"parameter '{name}' has the name of a placeholder", ("parameters", name)
                )
            if not re.fullmatch(_NAME, name):
                hint = "lower-case letters, digits and _, a letter first"
                raise MisplacedError(f"'{name}' is not a parameter's name", ("parameters", name), hint)
        for name, metric in self.metrics.items():
            _check_source(("metrics", name, "from"), metric.source, len(self.run))
            if metric.builtin == "server_cpu" and self.serve is None:
                hint = "without a server: builtin: cpu"
                raise MisplacedError("server_cpu needs a server ('serve')", ("metrics", name), hint)
            if metric.per is not None:
                _check_source(("metrics", name, "per", "from"), metric.per.source, len(self.run))
        for number, kept in enumerate(self.keep):
            if not kept or kept.startswith((".", "/")) or "/" in kept:
                hint = "let the tool write it into {out}"
                raise MisplacedError(f"'{kept}' is no file of the trial's directory", ("keep", number), hint)
        for loc, command in self._located():
            self._check_command(loc, command)
        return self

    def _check_command(self, loc: tuple[str | int, ...], command: str) -> None:
        """Raises MisplacedError unless the command splits and uses known names only."""
        known = set(PLACEHOLDERS) | set(self.parameters)
        try:
            tokens = shlex.split(command)
        except ValueError as error:
            raise MisplacedError(
                f"'{command}' cannot be split into arguments: {error}",
                loc,
                "close the quote, or escape it with \\",
            ) from error
        if not tokens:
            raise MisplacedError(f"'{loc[-1]}' is an empty command", loc)
        for name in placeholders(" ".join(tokens)):
            if name not in known:
                hint = suggest(name, known)
                raise MisplacedError(f"'{{{name}}}' is neither a parameter nor a placeholder", loc, hint)

    def _located(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Every command line with the place where it stands in the file."""
        located: list[tuple[tuple[str | int, ...], str]] = [
            *((("fetch", k), command) for k, command in enumerate(self.fetch)),
            *((("prepare", k), command) for k, command in enumerate(self.prepare)),
            *((("run", k), command) for k, command in enumerate(self.run)),
            *((("finish", k), command) for k, command in enumerate(self.finish)),
        ]
        if self.before:
            located.append((("before",), self.before))
        if self.stop.run:
            located.append((("stop", "run"), self.stop.run))
        if self.directory:
            located.append((("directory",), shlex.quote(self.directory)))
        if self.serve:
            located.append((("serve", "run"), self.serve.run))
        if self.neighbour.run:
            located.append((("neighbour", "run"), self.neighbour.run))
        return located

    def commands(self) -> tuple[str, ...]:
        """Every command line the file holds."""
        return tuple(command for _, command in self._located())

    @property
    def users_own(self) -> bool:
        """True if its commands are a user's, given where no workload file is: what they leave running is the user's."""
        return not self.origin

    @property
    def primary(self) -> str:
        """Name of the metric shown when there is room for one."""
        return next(iter(self.metrics))

    @property
    def headline_step(self) -> int | None:
        """The command of `run` (from 0) that the headline metric is read from; None where the file does not say."""
        stream, _, step = self.metrics[self.primary].source.partition(":")
        return int(step) - 1 if stream in ("stdout", "stderr") and step else None


def _is_share(parameter: Parameter | None) -> bool:
    """True if it is a percentage that is 100 where nobody says otherwise."""
    return parameter is not None and (parameter.default, parameter.min, parameter.max) == (100, 1, 100)


def _check_source(loc: tuple[str, ...], source: str, steps: int) -> None:
    """`stdout:k` must name a step that there is; a file must stay below {out}."""
    stream, colon, step = source.partition(":")
    if stream in ("stdout", "stderr"):
        if colon and not (step.isdecimal() and 1 <= int(step) <= steps):
            raise MisplacedError(f"'from: {source}': there is no command {step} of {steps} in 'run'", loc)
    elif source.startswith(("/", "../")) or "/../" in source:
        hint = "let the tool write into {out}, and name the file relative to it"
        raise MisplacedError(f"'from: {source}' is not below the trial's directory", loc, hint)


__all__ = [
    "Duration",
    "Metric",
    "Neighbour",
    "Parameter",
    "Resource",
    "Scalar",
    "Strict",
    "Traced",
    "Workload",
]
