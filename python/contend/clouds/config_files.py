"""Files that describe clouds: where openstacksdk looks for them, and that they may be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from contend.errors import BadInput
from contend.files import config_home, read_named
from contend.store.ownership import why_file_changeable

_SUFFIXES = (".yaml", ".yml", ".json")
_NAMES = ("clouds", "secure", "clouds-public")
_VARIABLES = ("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE")
_TRUSTED = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
MOST_AUTHORITIES = 16 << 20
"""Bytes of a file of certificates; those of a distribution are a quarter of a MiB."""


def check(config: str = "") -> None:
    """Check that a parser can be given these files: not endless, huge, deep, binary, or no YAML. Raises BadInput.

    openstacksdk reads whatever is there, and PyYAML in C ends the process where it is nested too deeply. config: the
    one file that describes clouds, where a run has recorded it.
    """
    # Here: a storm's client imports this module, and is to start at once.
    from contend.scenario.yaml_file import check_yaml

    for file in _files(config):
        if os.path.lexists(file):
            check_in_working_directory(file)
            check_yaml(file)


def check_in_working_directory(file: Path) -> None:
    """Refuse a file that was only found in the working directory, where somebody else could have laid it: its URL would be
    sent this user's password from another file. Raises BadInput."""
    named = {Path(os.environ.get(name) or "/") for name in _VARIABLES}
    if file.is_absolute() or len(file.parts) != 1 or file in named:
        return
    if why := why_file_changeable(file):
        raise BadInput(
            f"{file} of the working directory is not read: {why}",
            hint=f"if you trust it, name it: OS_CLIENT_CONFIG_FILE=./{file}, or use a copy of your own",
        )


def check_authorities(file: str | Path) -> None:
    """Refuse certificates that never end. Raises BadInput.

    A directory of them is one of the system's; a file that is not there is told of by who opens it.
    """
    if os.path.exists(file) and not Path(file).is_dir():  # noqa: PTH110 - Path's raises where it may not look
        read_named(
            Path(file), most=MOST_AUTHORITIES, hint="a file of PEM certificates, or a directory of them"
        )


def check_trusted() -> None:
    """Refuse certificates that the environment names and that never end, before TLS reads them. Raises BadInput."""
    for variable in _TRUSTED:
        named = os.environ.get(variable, "")
        try:
            if named:
                check_authorities(named)
        except BadInput as error:
            error.message = f"{variable}: {error.message}"
            raise


def _files(config: str) -> Iterator[Path]:
    named = [config] if config else [os.environ.get(name, "") for name in _VARIABLES]
    yield from (Path(name) for name in named if name)
    home = config_home().parent
    bases = [Path(os.environ.get("XDG_CONFIG_HOME") or home), home, Path("/etc/xdg"), Path("/etc")]
    for folder in (Path(), *(base / "openstack" for base in bases)):
        for name in _NAMES:
            if name != "clouds" or not config:
                yield from (folder / f"{name}{suffix}" for suffix in _SUFFIXES)
