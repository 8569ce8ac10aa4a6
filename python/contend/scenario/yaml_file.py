"""YAML files whose mistakes are reported with their line.

`read_yaml` reads a file with every key's position kept; `validate` makes a pydantic model of it, or raises
one error that reads like `workloads/mytool.yaml, line 7: 'better: more' is not one of: higher, lower`.

The files follow YAML's core schema (YAML 1.2 §10.3): `yes`, `on`, `012` and `1:30` are text, not the
booleans, octal and base-60 numbers of YAML 1.1. Duplicate keys, keys that are not text, and infinite numbers
are refused.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from contend.errors import BadInput
from contend.scenario.validation_errors import describe_all, required
from contend.text.printable import short

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

Loc = tuple[str | int, ...]
Parsed = TypeVar("Parsed")

MAX_BYTES = 256 * 1024
MAX_NODES = 50_000  # after aliases are followed, so that a few lines of them cannot fill the memory
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A parsed file: `data` are plain values, `name` is what messages call it."""

    name: str
    data: Any
    _root: yaml.Node | None

    def nearest_known(self, loc: Loc) -> Loc:
        """The longest beginning of `loc` that is in the file."""
        return self._walk(loc)[0]

    def line_of(self, loc: Loc) -> int:
        """Line, counted from 1, of the key or list item at `loc`, or of its nearest parent in the file.

        >>> read_yaml("a: 1\\nb:\\n  c: 2\\n", "x.yaml").line_of(("b", "c"))
        3
        """
        return self._walk(loc)[1]

    def where(self, loc: Loc) -> str:
        """`name, line N` of the key or item at `loc`."""
        return f"{self.name}, line {self.line_of(loc)}"

    def value_at(self, loc: Loc) -> Any:
        """The value at the longest beginning of `loc` that is in the file."""
        value = self.data
        for part in self.nearest_known(loc):
            value = value[part]
        return value

    def _walk(self, loc: Loc) -> tuple[Loc, int]:
        import yaml

        node, line = self._root, 1 if self._root is None else self._root.start_mark.line + 1
        for depth, part in enumerate(loc):
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == part:
                        node, line = value, key.start_mark.line + 1
                        break
                else:
                    return loc[:depth], line
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            else:
                return loc[:depth], line
        return loc, line


class MisplacedError(ValueError):
    """Raised by a model's validator: says which key, below the validated model, is wrong, and what to do."""

    def __init__(self, message: str, loc: Loc = (), hint: str = "") -> None:
        super().__init__(message)
        self.loc = loc
        self.hint = hint


def field(parse: Callable[[Any], Parsed]) -> Callable[[Any], Parsed]:
    """Wrap `parse` as a pydantic validator: its BadInput becomes an error with a line and its hint.

    pydantic reports a place only for ValueError; everything else passes it without one.
    """

    @functools.wraps(parse)
    def validator(value: Any) -> Parsed:
        try:
            return parse(value)
        except BadInput as error:
            raise MisplacedError(error.message, hint=error.hint) from error

    return validator


def _loader(text: str) -> Any:
    """libyaml's, ten times as fast, for a plain file; Python's, whose errors are the better ones, for any other.

    libyaml's composer calls itself for each level, in C, where too many end the process: so it gets none that is deep.
    """
    import yaml

    fast: Any = getattr(yaml, "CSafeLoader", None)
    if fast is None:
        return yaml.SafeLoader
    depth = nodes = 0
    try:
        for event in yaml.parse(text, Loader=fast):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            nodes += isinstance(event, yaml.NodeEvent)
            if depth > MAX_DEPTH or nodes > MAX_NODES or isinstance(event, yaml.AliasEvent):
                return yaml.SafeLoader
    except (yaml.YAMLError, ValueError):
        return yaml.SafeLoader
    return fast


def read_yaml(source: Path | str, name: str, error_class: type[BadInput] = BadInput) -> YamlFile:
    """Read the file at a Path, or the text given as a str; `name` is what messages call it.

    Raises `error_class` for what cannot be read, is no text, too large, or no YAML.

    >>> read_yaml("{trial: 2s, direct: on}", "x.yaml").data
    {'trial': '2s', 'direct': 'on'}
    """
    text = _read_text(source, name, error_class) if isinstance(source, Path) else source
    with _naming_lines(text, name, error_class):
        root = _composed(text, name, error_class)
        return YamlFile(name, None if root is None else _plain(root, name, error_class), root)


def check_yaml(path: Path, error_class: type[BadInput] = BadInput) -> str:
    """Read the text of a YAML file that another reader parses: within the same bounds, whatever its keys and tags are.

    Raises `error_class` for what cannot be read, is no text, too large, too deep, or no YAML.
    """
    name = short(path, 200)
    text = _read_text(path, name, error_class)
    with _naming_lines(text, name, error_class):
        _composed(text, name, error_class)
    return text


def _composed(text: str, name: str, error_class: type[BadInput]) -> yaml.Node | None:
    import yaml

    if len(text) > MAX_BYTES:
        raise error_class(f"{name} is larger than {MAX_BYTES // 1024} KiB", hint="is it the right file?")
    root: yaml.Node | None = yaml.compose(text, Loader=_loader(text))
    if root is not None:
        _check_size(root, {}, name, error_class)
    return root


@contextlib.contextmanager
def _naming_lines(text: str, name: str, error_class: type[BadInput]) -> Iterator[None]:
    """Raise what PyYAML raises as an `error_class` that names the line."""
    import yaml

    try:
        yield
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise error_class(
            f"{name}, line {line}: the character {chr(error.character)!r} may not stand in YAML",
            hint="is it a text file?",
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        what = " ".join(x for x in (error.context, error.problem) if x)
        raise error_class(f"{where}: not YAML: {what}", hint=_syntax_hint(text, mark)) from error
    except ValueError as error:  # PyYAML's, of an escape like "\\U00110000"
        raise error_class(
            f"{name} holds a character that does not exist", hint="look for \\U in it"
        ) from error
    except RecursionError as error:
        raise error_class(
            f"{name} is nested too deeply", hint=f"at most {MAX_DEPTH} levels are read"
        ) from error


def validate(
    model: type[Model],
    file: YamlFile,
    error_class: type[BadInput] = BadInput,
    advise: Callable[[YamlFile, Loc], str] | None = None,
) -> Model:
    """Make `file.data` a `model`; else raise the first error by line, as an `error_class` that counts the others.

    `advise(file, loc)` may give a hint of its own for a value at `loc` that is not allowed.
    """
    if not isinstance(file.data, dict):
        problem = "is empty" if file.data is None else "is not a list of `key: value` lines"
        raise error_class(f"{file.name} {problem}", hint=f"it needs at least: {', '.join(required(model))}")
    try:
        return model.model_validate(file.data)
    except ValidationError as error:
        problems = describe_all(model, file, error, advise)
    line, message, hint = problems[0]
    more = len(problems) - 1
    if more:
        message += f" ({more} more {'mistake' if more == 1 else 'mistakes'} after this one)"
    raise error_class(f"{file.name}, line {line}: {message}", hint=hint)


def _read_text(path: Path, name: str, error_class: type[BadInput]) -> str:
    try:
        # Not to wait for a writer where the path is a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise error_class(
            f"cannot read {name}: {reason}", hint="check the path and its permissions"
        ) from error
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise error_class(f"cannot read {name}: it is {kind}", hint="give the path of a YAML file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_BYTES:
        raise error_class(f"{name} is larger than {MAX_BYTES // 1024} KiB", hint="is it the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise error_class(
            f"{name}, line {line}: byte {data[error.start]:#04x} is not UTF-8",
            hint="save the file as UTF-8 text",
        ) from error


def _syntax_hint(text: str, mark: yaml.Mark | None) -> str:
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\t" in line:
        return "YAML is indented with spaces; that line holds a tab"
    if re.search(r":\s.*:\s|[{}\[\]]", line):
        return "put quotes around a value that holds `: `, a brace or a bracket"
    return "check the indentation, and quotes and brackets that are not closed"


def _check_size(
    node: yaml.Node, sizes: dict[int, int], name: str, error_class: type[BadInput], depth: int = 0
) -> int:
    """Number of nodes below this one with every alias followed; refuses loops, bombs and towers."""
    import yaml

    if id(node) in sizes:
        if sizes[id(node)] == 0:  # still being counted: an alias inside its own anchor
            raise error_class(
                f"{name}, line {node.start_mark.line + 1}: refers to itself", hint="remove the alias (*name)"
            )
        return sizes[id(node)]
    if depth > MAX_DEPTH:
        raise error_class(
            f"{name}, line {node.start_mark.line + 1}: nested too deeply",
            hint=f"at most {MAX_DEPTH} levels are read",
        )
    sizes[id(node)] = 0
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    else:
        children = node.value if isinstance(node, yaml.SequenceNode) else []
    total = 1
    for child in children:
        total += _check_size(child, sizes, name, error_class, depth + 1)
        if total > MAX_NODES:
            raise error_class(
                f"{name}, line {node.start_mark.line + 1}: holds more than {MAX_NODES} values",
                hint="is it the right file?",
            )
    sizes[id(node)] = total
    return total


# Scalars without quotes, by the core schema; anything else is text. Tags written out (!!int) are refused.
_CORE: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"|~|null|Null|NULL"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?(0|[1-9][0-9]{0,17})"), int),
    (re.compile(r"0x[0-9a-fA-F]{1,15}"), lambda text: int(text, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda _: math.inf),
)


def _plain(node: yaml.Node, name: str, error_class: type[BadInput]) -> Any:
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, name, error_class)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child, name, error_class) for child in node.value]
    if not isinstance(node, yaml.MappingNode):
        raise error_class(
            f"{name}, line {line}: not a value", hint="write text, a number, a list or a mapping"
        )
    seen: dict[str, int] = {}
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = _scalar(key_node, name, error_class) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            written = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            raise error_class(
                f"{name}, line {line}: a key must be text" + (f", and {written} is not" if written else ""),
                hint=f'put it in quotes: "{written}"'
                if written
                else "put quotes around a value that starts with {",
            )
        if key in seen:
            raise error_class(
                f"{name}, line {line}: '{key}' stands here twice (first in line {seen[key]})",
                hint="keep one of them",
            )
        seen[key] = line
        result[key] = _plain(value_node, name, error_class)
    return result


def _scalar(node: yaml.ScalarNode, name: str, error_class: type[BadInput]) -> Any:
    text: str = node.value
    where = f"{name}, line {node.start_mark.line + 1}"
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.rsplit(":", 1)[1] not in _RESOLVED:
        raise error_class(f"{where}: the tag {node.tag} is not read", hint="write the plain value")
    if node.style:  # quoted, or a block of text
        return text
    for pattern, read in _CORE:
        if pattern.fullmatch(text):
            value = read(text)
            if isinstance(value, float) and not math.isfinite(value):
                raise error_class(
                    f"{where}: '{short(text)}' is not a finite number", hint="write a finite number"
                )
            return value
    return text


# What PyYAML resolves plain scalars to (YAML 1.1); decided again by _CORE.
_RESOLVED = frozenset({"str", "int", "float", "bool", "null", "timestamp", "merge", "value"})
