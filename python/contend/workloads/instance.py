"""A workload with its parameters decided: what a cell of an experiment runs."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from contend.errors import UnknownName, WorkloadError, suggest
from contend.platforms.programs import find_command
from contend.text.masking import mask_value
from contend.workloads import parameters_file
from contend.workloads.parameters_file import Placeholders
from contend.workloads.placeholders import PLACEHOLDERS, fill, placeholders
from contend.workloads.spec import Parameter, Scalar, Workload
from contend.workloads.variables import expand, names, shell_word

Argv = tuple[str, ...]

# Fixed for the whole run, so they may stand in a file that is written once.
_LASTING = frozenset({"port", "work", "cache", "cpus", "cpu_list", "address", "seconds"})
_MARK = re.compile(r"@([a-z_][a-z0-9_]*)@")


@dataclass(frozen=True, slots=True)
class Commands:
    """Argument vectors, ready to run. `run` is one command or several, one after the other."""

    fetch: tuple[Argv, ...]
    prepare: tuple[Argv, ...]
    finish: tuple[Argv, ...]
    before: Argv | None
    stop: Argv | None  # after every trial
    serve: Argv | None
    run: tuple[Argv, ...]
    neighbour: Argv  # runs until it is stopped; with `serve`, it loads that server
    directory: str  # where they run, except fetch, prepare and finish, which run in {work}


@dataclass(frozen=True, slots=True)
class Instance:
    """A workload and a value for each of its parameters. `label` names it in tables: `fio[depth=1]`."""

    workload: Workload
    parameters: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name, and what differs from the defaults, in the order of the file: `fio writes[depth=1]`."""
        words, changed = [self.workload.name], []
        for name, value in self.changed.items():
            if (word := self.workload.parameters[name].says.get(_text(value))) is not None:
                words.append(word)
            else:
                changed.append(f"{name}={_text(value)}")
        return " ".join(words) + (f"[{','.join(changed)}]" if changed else "")

    @property
    def spelt_out(self) -> str:
        """The label without words for values, as runs of earlier contends have it: `fio[read=0,depth=1]`."""
        changed = ",".join(f"{name}={_text(value)}" for name, value in self.changed.items())
        return self.workload.name + (f"[{changed}]" if changed else "")

    @property
    def changed(self) -> dict[str, Scalar]:
        """Parameters that differ from the defaults, in the order of the file, secrets masked."""
        return {
            name: _masked(self.parameters[name], name)
            for name, parameter in self.workload.parameters.items()
            if self.parameters[name] != parameter.default
        }

    @property
    def network(self) -> Literal["host", "pair"]:
        """`pair` where server and load get a network namespace each, else `host`: see `Workload.network`."""
        kind = self.workload.network
        if kind[:1] == "{":
            kind = str(self.parameters[kind[1:-1]])
        return "pair" if kind == "pair" else "host"

    @property
    def share(self) -> float:
        """Share of the time for which it works as a neighbour, 0 to 1."""
        parameter = self.workload.neighbour.intensity
        return float(self.parameters[parameter]) / 100 if parameter else 1.0

    def layout(self, seed: int) -> int | None:
        """Number of the layout of the trial with that seed; None where its layout is not drawn."""
        return seed % self.workload.layouts if self.workload.layouts else None

    def values(self, values: Mapping[str, object]) -> dict[str, object]:
        """`values` of the placeholders, those that follow from `seconds`, and the parameters."""
        filled = dict(values)
        if "out" in filled:
            filled.setdefault("parameters", f"{filled['out']}/{parameters_file.NAME}")
        if "seconds" in filled:
            step_s = float(str(filled["seconds"])) / len(self.workload.run)
            filled.setdefault("step_seconds", f"{step_s:g}")
            filled.setdefault("step_ms", max(1, round(step_s * 1000)))
            filled.setdefault("step_whole_seconds", max(1, math.ceil(step_s)))
        if "seed" in filled:
            filled.setdefault("layout", self.layout(int(str(filled["seed"]))) or 0)
        for name, value in self.parameters.items():
            follows = self.workload.parameters[name].follows_placeholder
            if follows and value == self.workload.parameters[name].default:
                filled[name] = filled[str(value)[1:-1]]
            else:
                filled[name] = _text(value)
        return filled

    def commands(self, values: Mapping[str, object]) -> Commands:
        """The commands, with `values` for the PLACEHOLDERS. Raises WorkloadError where one is missing."""
        filled = self.values(values)
        workload = self.workload

        def argv(command: str) -> Argv:
            try:
                return fill(command, filled)
            except KeyError as error:
                raise WorkloadError(
                    f"{workload.name}: no value for {{{error.args[0]}}} in '{command}'",
                    hint=f"it is {PLACEHOLDERS.get(str(error.args[0]), 'a parameter')}",
                ) from error

        run = tuple(argv(command) for command in workload.run)
        return Commands(
            fetch=tuple(argv(command) for command in workload.fetch),
            prepare=tuple(argv(command) for command in workload.prepare),
            finish=tuple(argv(command) for command in workload.finish),
            before=argv(workload.before) if workload.before else None,
            stop=argv(workload.stop.run) if workload.stop.run else None,
            serve=argv(workload.serve.run) if workload.serve else None,
            run=run,
            neighbour=self._pulsed(
                argv(workload.neighbour.run) if workload.neighbour.run else repeated(run), filled
            ),
            directory=argv(shlex.quote(workload.directory))[0] if workload.directory else str(filled["work"]),
        )

    def write_parameters(self, values: Mapping[str, object]) -> None:
        """Write the file that `{parameters}` names, in {out}, where a command has it. Raises BadInput."""
        if not any("parameters" in placeholders(command) for command in self.workload.commands()):
            return
        filled = self.values(values)
        parameters = {
            name: expand(value) if isinstance(value, str) else value
            for name, value in self.parameters.items()
        }
        given = Placeholders(
            work=Path(str(filled["work"])),
            out=Path(str(filled["out"])),
            cache=Path(str(filled["cache"])),
            seed=int(str(filled["seed"])),
            port=int(str(filled["port"])),
            address=str(filled["address"]),
        )
        parameters_file.write(Path(str(filled["parameters"])), parameters, given)

    def _pulsed(self, neighbour: Argv, values: Mapping[str, object]) -> Argv:
        """The command, or what lets it work for its share of the time."""
        if self.share == 1:
            return neighbour
        native = str(values["native"]).split("\0")
        return (*native, "pulse", "--share", f"{100 * self.share:g}", "--", *neighbour)

    def measured_s(self, values: Mapping[str, object]) -> float | None:
        """Seconds for which the headline metric counts, where the command gets a duration; None where it runs to its own
        end."""
        step = self.workload.headline_step
        names = placeholders(self.workload.run[step if step is not None else 0])
        filled = self.values(values)
        for name in ("step_seconds", "step_ms", "step_whole_seconds", "seconds"):
            if name in names:
                return float(str(filled[name])) / (1000 if name == "step_ms" else 1)
        return None

    def ready(self, values: Mapping[str, object]) -> tuple[int | None, str | None]:
        """(TCP port, file) that show when the server serves; one of them is None."""
        if self.workload.serve is None:
            return None, None
        ready, filled = self.workload.serve.ready, self.values(values)
        if ready.file is not None:
            return None, " ".join(fill(shlex.quote(ready.file), filled))
        port = " ".join(fill(str(ready.tcp), filled))
        if not port.isdecimal():
            raise WorkloadError(
                f"{self.workload.name}: 'tcp: {port}' is not a port", hint="write tcp: '{port}'"
            )
        return int(port), None

    def write_files(self, directory: Path, values: Mapping[str, object]) -> None:
        """Write the workload's files into `directory`, once a run: `@name@` becomes the value.

        Raises WorkloadError for a file that is not there, or that asks for what changes from trial to trial.
        """
        filled = self.values(values)
        for name, file in self.workload.files.items():
            text = file.text if file.text is not None else self._beside(str(file.beside))

            def insert(match: re.Match[str], name: str = name) -> str:
                word = match[1]
                if word in self.parameters or word in _LASTING:
                    return expand(str(filled[word])) if word in self.parameters else str(filled[word])
                if word in PLACEHOLDERS:
                    raise WorkloadError(
                        f"{self.workload.name}: file '{name}' holds @{word}@, which changes with every trial",
                        hint=f"pass {{{word}}} to the program as an argument",
                    )
                return match[0]  # some program's own notation

            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            inserted = _MARK.sub(insert, text)
            named = [
                name
                for word in _MARK.findall(text)
                if word in self.parameters
                for name in names(str(filled[word]))
            ]
            path.touch(mode=0o600 if named else 0o644)  # it may hold a secret of the environment's
            path.write_text(inserted, encoding="utf-8")

    def inputs(self, values: Mapping[str, object]) -> tuple[object, ...]:
        """All that its inputs are made from, with these values: equal where two workloads would make the same."""
        commands, filled = self.commands(values), self.values(values)
        lasting = tuple(
            (name, tuple(str(filled.get(word)) for word in _MARK.findall(file.text or self._beside(str(file.beside)))))
            for name, file in self.workload.files.items()
        )  # fmt: skip
        return self.label, commands.fetch, commands.prepare, commands.finish, lasting

    def _beside(self, name: str) -> str:
        source = Path(self.workload.origin).parent / name
        try:
            return source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WorkloadError(
                f"{self.workload.name}: cannot read '{name}' beside {self.workload.origin}: {error}",
                hint="put it next to the workload's file",
            ) from error


def resolve(workload: Workload, parameters: Mapping[str, Scalar]) -> Instance:
    """The workload with `parameters`, and its defaults for the others, or what they prefer and is installed.

    Text, as `--set` gives it, becomes a value of the default's type. Raises UnknownName for a parameter the
    workload has not, WorkloadError for a value that is not allowed.
    """
    for name in parameters:
        if name not in workload.parameters:
            raise _unknown(workload, name)
    decided: dict[str, Scalar] = {}
    for name, parameter in workload.parameters.items():
        if name not in parameters:
            preferred = parameter.prefer and find_command(parameter.prefer) is not None
            decided[name] = parameter.prefer if preferred else parameter.default
            continue
        try:
            decided[name] = parameter.check(name, _coerce(name, parameters[name], parameter))
        except WorkloadError as error:
            raise WorkloadError(f"{workload.name}: {error.message}", hint=error.hint) from error
    return Instance(workload, decided)


def repeated(run: tuple[Argv, ...]) -> Argv:
    """A command that repeats `run` until it is stopped, or until one of them fails.

    >>> repeated((("mytool", "--out", "/tmp/a b"),))[2]
    "while mytool --out '/tmp/a b' >/dev/null; do :; done"
    """
    steps = " && ".join(f"{' '.join(map(shell_word, argv))} >/dev/null" for argv in run)
    return ("sh", "-c", f"while {steps}; do :; done")


def _unknown(workload: Workload, name: str) -> UnknownName:
    error = UnknownName("parameter", name, workload.parameters)
    error.message = f"{workload.name} has no parameter '{name}'"
    error.args = (error.message,)
    error.hint = suggest(name, workload.parameters) if workload.parameters else "it has none"
    return error


def _coerce(name: str, value: object, parameter: Parameter) -> Scalar:
    """`value` in the type of the parameter's default; text that is no such thing raises WorkloadError."""
    default = parameter.default
    if not isinstance(value, str | int | float):
        raise WorkloadError(f"'{name}: {value}' is not one value", hint=f"the default is {default}")
    if isinstance(value, float) and not math.isfinite(value):
        raise WorkloadError(f"'{name}: {value}' is not finite", hint=f"the default is {default}")
    text = _text(value)
    if isinstance(default, bool):
        if text.lower() not in ("true", "false", "yes", "no", "on", "off"):
            raise WorkloadError(
                f"'{name}: {text}' is not true or false", hint=f"the default is {_text(default)}"
            )
        return text.lower() in ("true", "yes", "on")
    numeric = parameter.min is not None or parameter.max is not None
    if isinstance(default, int | float) or (parameter.follows_placeholder and numeric):
        return _number(name, value, text, default)
    if "\0" in text:
        raise WorkloadError(f"'{name}' holds a NUL character", hint=f"the default is {default}")
    return text


def _number(name: str, value: object, text: str, default: Scalar) -> Scalar:
    whole = not isinstance(default, float)
    try:
        number = float("nan") if isinstance(value, bool) else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise WorkloadError(f"'{name}: {text}' is not {kind}", hint=f"the default is {_text(default)}")
    return int(number) if whole else number


def _masked(value: Scalar, name: str) -> Scalar:
    """The value, or what stands for it where it is a secret: a number can be one too."""
    text = _text(value)
    shown: str = mask_value(text, name)
    return value if shown == text else shown


def _text(value: Scalar) -> str:
    """As it is written in a file and on a command line.

    >>> _text(True), _text(0.5), _text("4k"), _text(2.0)
    ('true', '0.5', '4k', '2')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
