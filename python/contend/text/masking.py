r"""Mask what looks like a secret: passwords, tokens, keys; in text, command lines and structured values.

What a run is given may hold secrets: options of commands, URLs, variables, what a failing tool printed. `scenario.yaml`
keeps them (mode 0600), because `--resume` needs them. Everything else that contend writes, prints, serves or exports passes
through here. No pattern knows every secret: keep yours in the environment and write `${NAME}`.

A name alone is no secret: what stands for one by name (`${DB_PASSWORD}`) is shown, and so are paths of key files.

>>> mask("mytool --password=hunter2 --size 4k https://me:pw@db/?token=abcdef123456&page=2")
'mytool --password=*** --size 4k https://me:***@db/?token=***&page=2'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from contend.text import secret_options, secret_shapes
from contend.text.secret_options import is_program, mask_argument, mask_options
from contend.text.secret_shapes import mask_shapes

MASK = "***"
# Keys of rows and documents that hold figures, or ids that are masked where they are made.
FIGURES = frozenset(
    {"metrics", "evidence", "honoured", "overhead", "utc", "clock", "trials", "columns", "series"}
)
PLAIN_TYPES = frozenset({int, float, bool, type(None)})  # of which rows hold most; nothing to mask
_LONG = 4096  # characters: longer texts are not worth remembering

# What a name ends with whose value is a secret. The first are so whatever the value is; the second may be other things too
# (a token of a language, a number of a test), so a number is not masked; the third may name a file.
_SURE = r"(?:pass_?word|passwd|passwort|passphrase|passcode|pwd|client_?secret|requirepass|masterauth)"
_MAYBE = r"(?:(?<![a-z])(?:pass|pw|psk|otp)|secret|token|credentials?|cookie|cli_auth)"
_KEYS = (
    r"(?:api|access|secret|private|auth|account|shared|encryption|signing|master|license|storage|subscription|ssh"
    r"|websocket)[_-]?key"
)
_LATER = r"(?:[_-]?\d{1,3}|[_-](?:base|base64|b64|prod|production|dev|staging|stage|qa|old|new|primary|secondary))?"
_NAME = rf"[\w.-]*?(?P<kind>{_SURE}|{_MAYBE}|{_KEYS}){_LATER}"
_SECRET_NAME = re.compile(rf"{_NAME}\Z", re.IGNORECASE)
_FLAGS = frozenset(
    {"new-token", "no-password", "ask-pass", "ask-password", "password-stdin"}
)  # options without a value

_QUOTED = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'|" + r'\\+"[^"\n]*?\\+"'
_VALUE = rf"(?:(?:{_QUOTED})+|[^\s\"'&]+)"  # quotes in a row: as a shell's word that is quoted once more
_ASSIGNED = re.compile(
    rf"(?<![\w.-])(?P<name>{_NAME})(?P<mid>\\*[\"']?\s*=>?\s*)(?P<value>{_VALUE})", re.IGNORECASE
)
_KEYED = re.compile(
    rf"(?P<before>^|[\s{{\[,(\"'\\])(?P<name>{_NAME})(?P<mid>\\*[\"']?\s*:[ \t]*)(?P<value>{_QUOTED}|[^\s\"',}}\]]+)",
    re.IGNORECASE | re.MULTILINE,
)
_OPTION = re.compile(rf"(?<!\S)(?P<name>--?{_NAME})(?P<mid>[ \t]+)(?P<value>(?!-){_VALUE})", re.IGNORECASE)
# After an option's name in a sentence, no value.
_PROSE = frozenset(
    {
        "to",
        "is",
        "are",
        "names",
        "name",
        "for",
        "from",
        "or",
        "and",
        "with",
        "of",
        "in",
        "not",
        "was",
        "needs",
        "takes",
    }
    | {
        "keeps",
        "option",
        "instead",
        "if",
        "when",
        "as",
        "by",
        "the",
        "a",
        "an",
        "on",
        "must",
        "may",
        "can",
        "cannot",
    }
    | {"has", "have", "that", "which", "file", "files", "gives", "given", "makes"}
)
_HARMLESS = frozenset(
    {"", MASK, "true", "false", "yes", "no", "none", "null", "nil", "on", "off", "required", "optional"}
)
_BY_NAME = re.compile(r"\$\{?[A-Za-z_]\w*\}?\Z|\{[a-z_]\w*\}\Z|<[\w ]+>\Z|\*{3}")
_NUMBER = re.compile(r"[0-9.]+(?:e[+-]?\d+)?(?:[a-zµ%/]{1,5})?\Z", re.IGNORECASE)
_NESTED = re.compile(r"'(?:\\*[\"']){4,}")  # a quote in a word that a shell's quoting holds: '"'"', or twice
_PATH = re.compile(r"(?:~|\.{1,2})?/|file:")

_QUOTED_AFTER = re.compile(
    r"((?<![\w-])(?:pass_?word|passphrase|passwd)\s+(?:(?:is|was|of)\s+)?)(?P<quote>['\"`])(?P<value>[^'\"`\n]+)(?P=quote)",
    re.IGNORECASE,
)
_IS_RANDOM = re.compile(
    r"((?<![\w-])(?:pass_?word|passphrase|passwd)\s+(?:(?:is|was)\s+)?)(?=[^\s'\"`]*\d)(?=[^\s'\"`\d]*[a-z])(?!\*{3}|[\d.]+\w?\b)[^\s'\"`,;:()]{6,}",
    re.IGNORECASE,
)
_FED = re.compile(  # by a shell's here string, to what asks for a password; and where `net use` has it
    r"(?P<before>(?<![\w-])(?:(?:kinit|chpasswd|passwd|vncpasswd|htpasswd|smbclient|sshpass|cryptsetup|ssh-add"
    r"|sudo[ \t]+-S|(?:docker|podman)[ \t]+login)\b[^|;&\n<]{0,200}<<<[ \t]*"
    r"|net[ \t]+use[ \t]+\S{1,200}[ \t]+/user:\S{1,200}[ \t]+(?!/)))(?P<quote>\\*[\"']?)(?P<value>[^\s\"'\\;|&()]+)",
    re.IGNORECASE,
)
_LISTED = re.compile(  # ["--password", "x"], ('password', 'x')
    rf"(?P<before>(?P<open>\()?\s*[\"'](?P<name>-{{0,2}}{_NAME})[\"'],\s*)(?P<value>{_QUOTED})(?P<close>\s*\))?",
    re.IGNORECASE,
)
_TAGGED = re.compile(rf"(?P<before><(?P<name>{_NAME})(?:\s[^<>]*)?>)(?P<value>[^<>\n]+)(?=</)", re.IGNORECASE)
_SUSPECT = re.compile(
    rf"pass|pwd|pw\b|psk|otp|secret|token|key|auth|cred|cookie|http|<<<|/user:|{secret_shapes.SUSPECT}{secret_options.SUSPECT}",
    re.IGNORECASE,
)


def mask(text: str) -> str:
    """Mask in `text` what looks like a secret with `***`. Masking twice changes nothing more.

    >>> mask("Authorization: Bearer abc.def-123"), mask("PGPASSWORD=x psql"), mask("--token-bucket 5 tokens=12 author: x")
    ('Authorization: ***', 'PGPASSWORD=*** psql', '--token-bucket 5 tokens=12 author: x')
    """
    return _remembered(text) if len(text) < _LONG else _mask(text)


def mask_texts(texts: Sequence[str]) -> list[tuple[int, str]]:
    """Texts that masking changes: each with its index, and masked.

    >>> mask_texts(["GET /", "login password=hunter2"])
    [(1, 'login password=***')]
    """
    masked = ((index, text, mask(text)) for index, text in enumerate(texts))
    return [(index, after) for index, before, after in masked if before != after]


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Mask arguments of a command, each one, and the one that follows an option like `--password`.

    >>> mask_argv(("psql", "--password", "hunter", "--table", "users"))
    ('psql', '--password', '***', '--table', 'users')
    """
    masked: list[str] = []
    awaited = program = ""
    since = 0  # where the arguments of `program` begin
    for argument in argv:
        if awaited and not argument.startswith("-") and argument not in _PROSE:
            scheme = awaited == _HEADER and argument.lower() in _SCHEMES
            masked.append(argument if scheme else _hidden(argument, awaited))
            awaited = _HEADER if scheme else ""
            continue
        awaited = argument.lstrip("-") if _takes_secret(argument) else ""
        header = _HEADER_WORD.match(argument)
        if header is not None and (
            (is_secret_name(header[1]) and "-" in header[1]) or header[1].lower().endswith("authorization")
        ):
            awaited = _HEADER
        if is_program(argument):
            program, since = argument.rpartition("/")[2], len(masked) + 1
        assigned = _WHOLE.match(argument)
        if assigned is not None and is_secret_name(assigned[1].lstrip("-")):
            masked.append(f"{assigned[1]}={_hidden(assigned[2], assigned[1].lstrip('-'))}")
        else:
            masked.append(mask_argument(program, masked[since:], mask(argument)))
    if not any(
        " " in argument for argument in masked
    ):  # a shell has split what belongs together: Basic dXNlcjpwYXNz
        together = mask(" ".join(masked)).split(" ")
        if len(together) == len(masked):
            return tuple(together)
    return tuple(masked)


def mask_value(value: Any, name: str = "") -> Any:
    """Mask lists, mappings and texts in each other; returns a copy. `name`: the key that `value` stands under.

    >>> mask_value({"db": {"password": "hunter2", "port": 5432}, "argv": ["a", "--token", "zzz"]})
    {'db': {'password': '***', 'port': 5432}, 'argv': ['a', '--token', '***']}
    """
    if isinstance(value, str):
        return _hidden(value, name) if name and is_secret_name(name) else mask(value)
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, dict | Mapping):
        inner = name if name and is_secret_name(name) else ""
        return {
            (mask(key) if isinstance(key, str) else key): mask_value(
                each, inner if inner and key in ("default", "value", "choices") else str(key)
            )
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, str) for each in value):
            masked = [_hidden(each, name) for each in value] if is_secret_name(name) else mask_argv(value)
            return type(value)(masked)
        if PLAIN_TYPES.issuperset(map(type, value)):  # a hundred thousand figures, mostly
            return value
        return type(value)(mask_value(each, name) for each in value)
    return value


def mask_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Mask a trial's row where it holds texts of others; its figures are not looked at, of which it has most."""
    return {key: value if key in FIGURES else mask_value(value, key) for key, value in row.items()}


def mask_yaml(text: str) -> str:
    """Mask the values of a YAML document; it is returned as it was where nothing is secret, or where it is none."""
    import yaml

    if _SUSPECT.search(text) is None:
        return text
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return mask(text)
    masked = mask_value(data)
    if masked == data:
        return text
    again: str = yaml.safe_dump(masked, sort_keys=False, allow_unicode=True, width=100)
    return again


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """True if what stands under this name is a secret: `db_password`, not `password_file` or `tokens`.

    >>> [is_secret_name(name) for name in ("PGPASSWORD", "api-key", "clientSecret", "tokens", "author", "bypass")]
    [True, True, True, False, False, False]
    """
    return _SECRET_NAME.match(name) is not None


def has_url_password(text: str) -> bool:
    """True if a text holds a URL with a password in it, that is not given by name (`${NAME}`).

    >>> [has_url_password(f"mysql://nova{of}@db/") for of in (":s3", "", ":${DB_PASSWORD}")]
    [True, False, False]
    """
    return _URL_PASSWORD.search(text) is not None


_URL_PASSWORD = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^/?#\s]*:(?!\$\{[A-Z][A-Z0-9_]*\}@)[^/?#\s]*@", re.IGNORECASE
)
_HEADER = "password"  # what follows a header's name is a secret whatever it looks like
_HEADER_WORD = re.compile(r"([\w-]{4,60}):\Z")  # `Authorization: Bearer x` that a shell has split
_SCHEMES = frozenset({"basic", "bearer", "token", "digest", "negotiate", "apikey", "ntlm"})
_WHOLE = re.compile(r"([\w.-]{1,80})=(.*)\Z", re.DOTALL)


def _takes_secret(argument: str) -> bool:
    bare = argument.lstrip("-")
    return argument.startswith("-") and len(bare) > 1 and bare not in _FLAGS and is_secret_name(bare)


def _hidden(value: str, name: str) -> str:
    """The text shown for a value that stands under the name of a secret."""
    match = _SECRET_NAME.match(name)
    kind = match["kind"].lower() if match else ""
    word = value.strip("\\\"'")
    if word.lower() in _HARMLESS or _BY_NAME.match(word):
        return value
    if not re.fullmatch(_SURE, kind) and _NUMBER.match(word) and len(word) < 8:
        return value
    if (kind.endswith("key") or kind.startswith("credential") or kind == "pwd") and _PATH.match(word):
        return value
    quote = re.match(r"\\*[\"']", value)
    end = quote[0] if quote and value.endswith(quote[0]) and len(value) > len(quote[0]) else ""
    return f"{end}{MASK}{end}"


def _assigned(match: re.Match[str]) -> str:
    if match["name"].lstrip("-").lower() in _FLAGS:
        return match[0]
    return f"{match['name']}{match['mid']}{_hidden(match['value'], match['name'])}"


def _keyed(match: re.Match[str]) -> str:
    """`token: x` in a sentence is a word of a language; at the beginning of a line, or quoted, it is a key."""
    name, kind = match["name"], match["kind"].lower()
    begins = match["before"] not in (" ", "\t") or not match.string[: match.start("name")].rpartition("\n")[
        2
    ].strip(" \t-")
    sure = re.fullmatch(_SURE, kind) or len(name) > len(kind) or kind.endswith("key")
    if not begins and not sure and not (len(match["value"]) >= 6 and re.search(r"\d", match["value"])):
        return match[0]
    return f"{match['before']}{name}{match['mid']}{_hidden(match['value'], name)}"


def _listed(match: re.Match[str]) -> str:
    """A word of a list after an option, or one of a pair of name and value; else the names of fields may be listed."""
    name, close = match["name"], match["close"] or ""
    if not name.startswith("-") and not (match["open"] and close):
        return match[0]
    return f"{match['before']}{_hidden(match['value'], name.lstrip('-'))}{close}"


def _tagged(match: re.Match[str]) -> str:
    return f"{match['before']}{_hidden(match['value'], match['name'])}"


def _quoted(match: re.Match[str]) -> str:
    return f"{match[1]}{match['quote']}{_hidden(match['value'], 'password')}{match['quote']}"


def _fed(match: re.Match[str]) -> str:
    return f"{match['before']}{match['quote']}{_hidden(match['value'], 'password')}"


def _option(match: re.Match[str]) -> str:
    word = match["value"]
    if match["name"].lstrip("-").lower() in _FLAGS or word.lower().rstrip(".,:;") in _PROSE:
        return match[0]
    return f"{match['name']}{match['mid']}{_hidden(word, match['name'].lstrip('-'))}"


def _mask(text: str) -> str:
    if _SUSPECT.search(text) is None:
        return text
    flat = _NESTED.sub("'", text)
    masked = _mask_flat(flat)
    return text if masked == flat else masked


def _mask_flat(text: str) -> str:
    text = mask_options(mask_shapes(text))
    text = _ASSIGNED.sub(_assigned, text)
    text = _KEYED.sub(_keyed, text)
    text = _LISTED.sub(_listed, text)
    text = _TAGGED.sub(_tagged, text)
    text = _QUOTED_AFTER.sub(_quoted, text)
    text = _IS_RANDOM.sub(rf"\1{MASK}", text)
    text = _FED.sub(_fed, text)
    return _OPTION.sub(_option, text)


_remembered = lru_cache(maxsize=1 << 16)(_mask)
