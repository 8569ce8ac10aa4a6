"""A user's defaults of options: `$XDG_CONFIG_HOME/contend/config.toml`, or `CONTEND_VERB_OPTION` in the environment.

runs = "/srv/runs"     # of every verb that has the option
[ab]
target = "1%"          # of one
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.errors import BadInput, suggest
from contend.files import config_home

if TYPE_CHECKING:
    import click

NAME = "config.toml"


def path() -> Path:
    return config_home() / NAME


def read() -> Mapping[str, Any]:
    """Read the file; nothing where there is none. Raises BadInput."""
    file = path()
    try:
        text = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}", hint="chmod u+r, or move it away") from error
    import tomllib  # only where there is one

    try:
        return tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {error}", hint='it is TOML: [ab] and, below it, target = "1%"') from error


def defaults(verb: str, command: click.Command, verbs: Mapping[str, str]) -> dict[str, Any]:
    """Defaults of a verb's parameters, by their names. Raises BadInput for what is no verb and no option."""
    whole = read()
    for key, value in whole.items():
        if isinstance(value, Mapping) and key not in verbs:
            raise BadInput(f"{path()}: [{key}] is no verb", hint=suggest(key, verbs))
    options = {
        spelt.lstrip("-").replace("-", "_"): parameter
        for parameter in command.params
        for spelt in parameter.opts
        if spelt.startswith("--")
    }
    given: dict[str, Any] = {}
    for key, value in whole.items():
        if not isinstance(value, Mapping) and (parameter := options.get(key.replace("-", "_"))) is not None:
            given[str(parameter.name)] = value
    own = whole.get(verb)  # an option may be called as a verb is: `watch = "30s"` is one of prove
    for key, value in (own if isinstance(own, Mapping) else {}).items():
        parameter = options.get(key.replace("-", "_"))
        if parameter is None:
            raise BadInput(
                f"{path()}: [{verb}] has no option '{key}'",
                hint=suggest(key, [name.replace("_", "-") for name in options]),
            )
        given[str(parameter.name)] = value
    return given
