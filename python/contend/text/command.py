"""Command lines of users, as words."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|php|lua|java|bash|dash|zsh|sh)[\d.]*")
_FILE = re.compile(r"\S*/\S*|[\w-]+\.\w+")


def command_name(command: str) -> str:
    """The name of a command line's program, or of the script that an interpreter is given: lower-case letters, digits and -.

    >>> command_name("./render --scene big.yaml"), command_name("python3 -X dev tools/My_Job.py")
    ('render', 'my-job')
    >>> command_name("sh -c 'a | b'"), command_name("FAST=1 /opt/7z/7z b"), command_name("'")
    ('sh', 'c7z', 'command')
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return "command"
    while words and re.match(r"\w+=", words[0]):
        del words[0]
    if not words:
        return "command"
    name = PurePath(words[0]).name
    if _INTERPRETER.fullmatch(name):
        script = next((word for word in words[1:] if _FILE.fullmatch(word)), "")
        name = PurePath(script).stem or name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return plain if plain[:1].isalpha() else f"c{plain}" if plain else "command"
