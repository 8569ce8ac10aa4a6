"""`${NAME}` in commands and parameters: a variable of the environment, read when the command is run.

What a scenario or a workload file names so stands by name in everything that a run keeps or shows; its value is in none of
it, and `--resume` reads it again. `$${NAME}` is the text `${NAME}`. The script of a shell (`sh -c SCRIPT`) is left to that
shell, which has the same environment: inserted by somebody else, a value with a quote in it would be run as code.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from contend.errors import BadInput

_VARIABLE = re.compile(r"\$(\$?)\{([A-Z][A-Z0-9_]*)\}")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"})
_SHORTEST = (
    4  # characters of a value that is looked for in what tools print: a shorter one is found everywhere
)


def names(text: str) -> list[str]:
    """List the variables that a text names.

    >>> names("https://${USER}:${DB_PASSWORD}@db/ $${HOME} ${lower} $PATH")
    ['USER', 'DB_PASSWORD']
    """
    return [match[2] for match in _VARIABLE.finditer(text) if not match[1]]


def expand(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """`text` with the values of its variables. Raises BadInput for one that is not set.

    >>> expand("https://u:${PW}@db/ costs $${PW}", {"PW": "s3"})
    'https://u:s3@db/ costs ${PW}'
    """

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if match[2] not in environ:
            raise missing(match[2])
        return environ[match[2]]

    return _VARIABLE.sub(value, text)


def expand_argv(argv: Iterable[str], environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Arguments with the values of their variables; scripts of shells as they are. Raises BadInput.

    >>> expand_argv(("curl", "-H", "X-Token: ${T}"), {"T": "a b"})
    ('curl', '-H', 'X-Token: a b')
    >>> expand_argv(("nice", "sh", "-ec", "echo ${T}"), {"T": "a b"})
    ('nice', 'sh', '-ec', 'echo ${T}')
    """
    return tuple(word if is_script else expand(word, environ) for word, is_script in _with_scripts(argv))


def expand_env(env: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables given to a command, with the values of those that they name. Raises BadInput."""
    return {name: expand(value, environ) for name, value in env.items()}


def needed(argv: Iterable[str]) -> list[str]:
    """The variables without which a command cannot be run: not those of a shell's script, which may set them itself.

    >>> needed(("curl", "${A}")), needed(("bash", "-c", "${A}", "${B}"))
    (['A'], ['B'])
    """
    return [name for word, is_script in _with_scripts(argv) if not is_script for name in names(word)]


def missing(name: str, whose: str = "the command") -> BadInput:
    """The error where a variable is not set."""
    return BadInput(
        f"the environment has no variable {name}, which {whose} needs",
        hint=f"set it: export {name}=…; for the text itself write $${{{name}}}",
    )


def hide(text: str, *used: Iterable[str], environ: Mapping[str, str] = os.environ) -> str:
    """`text` with the names instead of the values of variables that these arguments or values name.

    >>> hide("no user s3cret", ("db", "${PW}"), environ={"PW": "s3cret"})
    'no user ${PW}'
    """
    for name in {name for words in used for word in words for name in names(word)}:
        if len(value := environ.get(name, "")) >= _SHORTEST:
            text = text.replace(value, f"${{{name}}}")
    return text


def shell_word(word: str) -> str:
    """An argument as a word of a shell's script, which expands the variables that it names.

    >>> print(shell_word("a b"), shell_word("${PW}/x y"), shell_word("$${PW}"))
    'a b' "${PW}"'/x y' '${PW}'
    """
    parts: list[str] = []
    at = 0
    for match in _VARIABLE.finditer(word):
        parts += [word[at : match.start()], f"\0{match[0]}"]
        at = match.end()
    parts.append(word[at:])
    if len(parts) == 1:
        return shlex.quote(word)
    quoted = (
        shlex.quote(part)
        if not part.startswith("\0")
        else shlex.quote(part[2:])
        if part.startswith("\0$$")
        else f'"{part[1:]}"'
        for part in parts
        if part
    )
    return "".join(quoted)


def _with_scripts(argv: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each argument, and whether it is the script that a shell is given with -c."""
    shell = option = False
    for word in argv:
        if shell and option:
            yield word, True
            shell = option = False
            continue
        if word.rpartition("/")[2] in _SHELLS:
            shell, option = True, False
        elif shell and word.startswith("-") and not word.startswith("--"):
            option = word.endswith("c")
        elif shell and not word.startswith("-"):
            shell = False  # a script's file
        yield word, False
