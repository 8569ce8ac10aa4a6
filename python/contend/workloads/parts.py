"""The parts of a workload file, each a model: what must be there, parameters, servers, metrics, behaviour as a neighbour."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    WithJsonSchema,
    model_validator,
)

from contend.errors import WorkloadError
from contend.scenario.yaml_file import MisplacedError, field
from contend.units import parse_duration_ns
from contend.workloads.placeholders import PLACEHOLDERS

Resource = Literal["cpu", "memory", "disk", "network", "lock"]
Scalar = str | int | float | bool


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


AS_WRITTEN = {"as written": True}
"""The context in which a model is dumped as a file that reads back to it."""


def _duration(ns: int, info: SerializationInfo) -> int | str:
    """Nanoseconds; in a file a bare number would be seconds."""
    return f"{(Decimal(ns) / 10**9).normalize():f}s" if info.context == AS_WRITTEN else ns


Duration = Annotated[
    int,
    BeforeValidator(field(parse_duration_ns), json_schema_input_type=float | str),
    PlainSerializer(_duration),
]
_LINES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Lines = Annotated[
    tuple[str, ...], WithJsonSchema(_LINES_SCHEMA)
]  # in a file, one may stand for a list of one


class Install(Strict):
    """Needs of a workload on the host: `command` are programs looked up on PATH, `file` paths that a package brings,
    wildcards too, `apt` the Debian packages with them, `module` what contend's own Python must be able to import."""

    apt: tuple[str, ...] = ()
    command: Lines = ()
    file: Lines = ()
    module: Lines = ()
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        return lists(value, "command", "file", "module")


class Traced(Strict):
    """Functions to record, as `contend trace --include` and `--exclude` name them: MODULE:NAME with * and ?."""

    include: Lines = ()
    exclude: Lines = ()

    @model_validator(mode="before")
    @classmethod
    def _single(cls, value: Any) -> Any:
        return lists(value, "include", "exclude")

    @model_validator(mode="after")
    def _of_modules(self) -> Traced:
        for pattern in (*self.include, *self.exclude):
            if not pattern.partition(":")[0]:
                raise ValueError(f"'{pattern}' names no module: MODULE:NAME, like 'app.db:Store.*'")
        return self


def lists(value: Any, *keys: str) -> Any:
    """A mapping in which one stands for a list of one."""
    if not isinstance(value, dict):
        return value
    return value | {key: (value[key],) for key in keys if isinstance(value.get(key), str)}


class Parameter(Strict):
    """A value that `--set` may change. A default like `{cpus}` takes the placeholder's value of the trial. With
    `prefer: jmeter`, jmeter is the value where nobody chose one and a program of that name is on PATH. says: a word for a
    value, that tables show after the workload's name: `says: {"0": writes}`."""

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
    says: dict[str, str] = {}

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
    """How a command is ended that runs too long; and by `run`, after every trial, what `before` or the commands of the
    trial have started and left."""

    run: str = ""
    signal: Literal["TERM", "INT", "QUIT", "KILL"] = "TERM"
    grace: Duration = 2_000_000_000


class Divisor(Strict):
    """A figure of a JSON file by which a metric is divided."""

    source: str = Field(alias="from")
    path: str


class Metric(Strict):
    """One figure of a trial and where it stands in the tool's output.

    Exactly one source: `builtin` (measured by contend), or `from` (a file under {out}, `stdout` or `stderr`;
    of the k-th command of `run`, from 1, `stdout:k`; without k the last) with `path` (JSONPath into JSON, or
    into each line of NDJSON, the last match counts), `column` (CSV, last row), or `pattern` (regular
    expression with one group, last match). server_cpu: CPU time of the server's place while it was loaded; of a guest
    that of all its machine. per: what the value is divided by, after `scale`. optional: none where nothing stands
    there; the headline, which is the first, has to be there.
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
    a second for disk and network; 0: it is a control, which need not use anything. intensity: the parameter that says for
    what part of the time, in %, it works; for the rest contend stops it, fifty times a second. counter: a file of {out} that
    holds how much of its resource it has used so far (bytes, or CPU seconds), where that is not on this host. grace: how
    long it has, once told by SIGTERM, to end what it has going on elsewhere; without it, it is killed.
    """

    run: str | None = None
    burning: float | None = Field(None, ge=0)
    intensity: str = ""
    counter: str = ""
    grace: Duration = 0


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
