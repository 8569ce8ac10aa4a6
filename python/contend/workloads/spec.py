"""A workload is a file: how to install it, run it, and read its figures.

The models here are the file format. They know nothing of hosts, runs or statistics. Commands are split like
a shell would split them and run without a shell (write `sh -c '…'` where one is wanted); `{name}` inserts a
parameter or one of PLACEHOLDERS, `{{` a brace.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from contend.errors import WorkloadError, suggest
from contend.units import parse_duration_ns
from contend.workloads.placeholders import PLACEHOLDERS, placeholders
from contend.yamlfile import MisplacedError, field

Resource = Literal["cpu", "memory", "disk", "network", "lock"]
Scalar = str | int | float | bool
_NAME = r"[a-z_][a-z0-9_]*"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


Duration = Annotated[int, BeforeValidator(field(parse_duration_ns), json_schema_input_type=float | str)]
_LINES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
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
Lines = Annotated[
    tuple[str, ...], WithJsonSchema(_LINES_SCHEMA)
]  # in a file, one may stand for a list of one


class Install(Strict):
    """What must be there: `command` are programs looked up on PATH, `file` paths that a package brings, `apt` the Debian
    packages with them, `module` what contend's own Python must be able to import."""

    apt: tuple[str, ...] = ()
    command: Lines = ()
    file: Lines = ()
    module: Lines = ()
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        return _lists(value, "command", "file", "module")


class Traced(Strict):
    """Functions to record, as `contend trace --include` and `--exclude` name them: MODULE:NAME with * and ?."""

    include: Lines = ()
    exclude: Lines = ()

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        return _lists(value, "include", "exclude")

    @model_validator(mode="after")
    def _of_modules(self) -> Traced:
        for pattern in (*self.include, *self.exclude):
            if not pattern.partition(":")[0]:
                raise ValueError(f"'{pattern}' names no module: MODULE:NAME, like 'app.db:Store.*'")
        return self


def _lists(value: Any, *keys: str) -> Any:
    """A mapping in which one stands for a list of one."""
    if not isinstance(value, dict):
        return value
    return value | {key: (value[key],) for key in keys if isinstance(value.get(key), str)}


class Parameter(Strict):
    """A value that `--set` may change. A default like `{cpus}` takes the placeholder's value of the trial. With
    `prefer: jmeter`, jmeter is the value where nobody chose one and a program of that name is on PATH."""

    default: Scalar
    prefer: str = ""
    choices: tuple[Scalar, ...] = ()
    needs: dict[
        str, str
    ] = {}  # of a choice, what may not be here: a program, or `module NAME` of contend's Python
    min: float | None = None
    max: float | None = None
    unit: str = ""
    about: str = ""

    def check(self, name: str, value: Scalar) -> Scalar:
        """The value, if it is allowed; raises WorkloadError. A default that is a placeholder passes."""
        if value == self.default and self.follows_placeholder:
            return value
        if self.choices and value not in self.choices:
            known = ", ".join(str(c) for c in self.choices)
            raise WorkloadError(
                f"'{name}: {value}' is not one of: {known}", hint=f"the default is {self.default}"
            )
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if (self.min is not None or self.max is not None) and number is None:
            raise WorkloadError(f"'{name}: {value}' is not a number", hint=f"the default is {self.default}")
        if number is not None and self.min is not None and number < self.min:
            raise WorkloadError(
                f"'{name}: {value}' is below {self.min:g}", hint=f"the default is {self.default}"
            )
        if number is not None and self.max is not None and number > self.max:
            raise WorkloadError(
                f"'{name}: {value}' is above {self.max:g}", hint=f"the default is {self.default}"
            )
        return value

    @property
    def follows_placeholder(self) -> bool:
        """True if the default is one of the PLACEHOLDERS, like `{cpus}`."""
        return isinstance(self.default, str) and self.default[1:-1] in PLACEHOLDERS and self.default[0] == "{"

    @model_validator(mode="after")
    def _needs_of_choices(self) -> Parameter:
        for choice in self.needs:
            if choice not in map(str, self.choices):
                raise MisplacedError(f"'needs: {choice}' is none of the choices", ("needs", choice))
        return self

    @model_validator(mode="after")
    def _default_allowed(self) -> Parameter:
        for key, value in (("default", self.default), ("prefer", self.prefer)):
            try:
                self.check(key, value if value != "" else self.default)
            except WorkloadError as error:
                raise MisplacedError(error.message, (key,)) from error
        return self


class Ready(Strict):
    """How to know that the server serves: it accepts on a TCP port, or a file appears."""

    tcp: str | int | None = None
    file: str | None = None
    timeout: Duration = 15_000_000_000

    @model_validator(mode="after")
    def _one(self) -> Ready:
        if (self.tcp is None) == (self.file is None):
            raise ValueError("ready needs exactly one of: tcp, file")
        return self


class Serve(Strict):
    """A server that runs in the platform for the length of one trial, while `run` loads it from outside."""

    run: str
    ready: Ready


class Stop(Strict):
    signal: Literal["TERM", "INT", "QUIT", "KILL"] = "TERM"
    grace: Duration = 2_000_000_000


class Divisor(Strict):
    """What a metric is divided by: a figure of a JSON file."""

    source: str = Field(alias="from")
    path: str


class Metric(Strict):
    """One figure of a trial and where it stands in the tool's output.

    Exactly one source: `builtin` (measured by contend), or `from` (a file under {out}, `stdout` or `stderr`;
    of the k-th command of `run`, from 1, `stdout:k`; without k the last) with `path` (JSONPath into JSON, or
    into each line of NDJSON, the last match counts), `column` (CSV, last row), or `pattern` (regular
    expression with one group, last match). server_cpu: CPU time of the server's place while it was loaded; of a guest
    that of all its machine. per: what the value is divided by, after `scale`. optional: none where nothing stands there.
    """

    source: str = Field("", alias="from")
    builtin: Literal["wall", "cpu", "user", "system", "max_rss", "server_cpu", ""] = ""
    path: str = ""
    column: str = ""
    pattern: str = ""
    scale: float = 1.0
    per: Divisor | None = None
    optional: bool = False
    unit: str
    better: Literal["higher", "lower"]
    # open: timed from the intended send time. closed: the generator waits for each answer, so a stall hides
    # the requests it delayed (coordinated omission); such a latency is never shown as a user's percentile.
    loop: Literal["open", "closed", ""] = ""
    about: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> Metric:
        readers = sum(bool(x) for x in (self.path, self.column, self.pattern))
        if bool(self.builtin) == bool(self.source):
            raise ValueError("a metric needs exactly one of: builtin, from")
        if self.source and readers != 1:
            raise ValueError("'from' needs exactly one of: path, column, pattern")
        if self.pattern:
            try:
                groups = re.compile(self.pattern).groups
            except re.error as error:
                raise MisplacedError(
                    f"'pattern: {self.pattern}' is no regular expression: {error}", ("pattern",)
                ) from error
            if groups != 1:
                hint = "put parentheses around the figure alone; (?:…) groups without counting"
                raise MisplacedError(
                    f"'pattern: {self.pattern}' needs exactly one (group)", ("pattern",), hint
                )
        if not math.isfinite(self.scale) or self.scale == 0:
            raise MisplacedError(f"'scale: {self.scale}' is not a number other than zero", ("scale",))
        return self


class Neighbour(Strict):
    """How the workload behaves as a neighbour: it runs until it is stopped.

    Without `run`, the workload's own commands (and server) are repeated. `burning` is the least rate at which
    it must use its resource before the victim starts: CPUs' worth of CPU time for cpu, memory and lock, bytes
    a second for disk and network.
    """

    run: str | None = None
    burning: float | None = None


class File(Strict):
    """A file put into {work}: text written here, or one that lies beside the workload file."""

    text: str | None = None
    beside: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _inline(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one(self) -> File:
        if (self.text is None) == (self.beside is None):
            raise ValueError("a file needs exactly one of: text, beside")
        return self


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
    around: Duration = 0  # what a trial takes beside that: processes that start, connections
    trace: Traced = Traced()  # what is recorded of it where a scenario asks for traces
    keep: Lines = ()  # files below {out} that stay with the run, in outputs/TRIAL; others are read and thrown away
    elsewhere: bool = False  # others do the work (a cloud's services): CPU they use here disturbs nothing
    # pair: serve and run each in a network namespace, joined by a veth; host: on this host's loopback, as without it;
    # {name}: as that parameter says
    network: str = Field("", pattern=rf"^(|host|pair|\{{{_NAME}\}})$")
    origin: str = Field("", exclude=True)  # the file it came from, for messages and for `beside`

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        return _lists(value, "run", "fetch", "prepare", "finish", "keep")

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
    def primary(self) -> str:
        """Name of the metric shown when there is room for one."""
        return next(iter(self.metrics))

    @property
    def headline_step(self) -> int | None:
        """Which command of `run` (from 0) the headline metric is read from; None where the file does not say."""
        stream, _, step = self.metrics[self.primary].source.partition(":")
        return int(step) - 1 if stream in ("stdout", "stderr") and step else None


def _check_source(loc: tuple[str, ...], source: str, steps: int) -> None:
    """`stdout:k` must name a step that there is; a file must stay below {out}."""
    stream, colon, step = source.partition(":")
    if stream in ("stdout", "stderr"):
        if colon and not (step.isdecimal() and 1 <= int(step) <= steps):
            raise MisplacedError(f"'from: {source}': there is no command {step} of {steps} in 'run'", loc)
    elif source.startswith(("/", "../")) or "/../" in source:
        hint = "let the tool write into {out}, and name the file relative to it"
        raise MisplacedError(f"'from: {source}' is not below the trial's directory", loc, hint)
