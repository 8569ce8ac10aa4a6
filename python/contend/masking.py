r"""Mask what looks like a secret: passwords, tokens, keys; in text, command lines and structured values.

What a run is given may hold secrets: options of commands, URLs, variables, what a failing tool printed. `scenario.yaml`
keeps them (mode 0600), because `--resume` needs them. Everything else that contend writes, prints, serves or exports passes
through here. No pattern knows every secret: keep yours in the environment and write `${NAME}` (`contend.variables`).

A name alone is no secret: what stands for one by name (`${DB_PASSWORD}`) is shown, and so are paths of key files.

>>> mask("mytool --password=hunter2 --size 4k https://me:pw@db/?token=abcdef123456&page=2")
'mytool --password=*** --size 4k https://me:***@db/?token=***&page=2'
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

MASK = "***"
# Keys of rows and documents that hold figures, or ids that are masked where they are made.
FIGURES = frozenset(
    {"metrics", "evidence", "honoured", "overhead", "utc", "clock", "trials", "columns", "series"}
)
PLAIN_TYPES = frozenset({int, float, bool, type(None)})  # of which rows hold most; nothing to mask
_LONG = 4096  # characters: longer texts are not worth remembering

# What a name ends with whose value is a secret. The first are so whatever the value is; the second may be other things too
# (a token of a language, a number of a test), so a number is not masked; the third may name a file.
_SURE = r"(?:pass_?word|passwd|passphrase|pwd|client_?secret)"
_MAYBE = r"(?:(?<![a-z])pass|secret|token|credentials?|cookie)"
_KEYS = r"(?:api|access|secret|private|auth|account|shared|encryption|signing|master|license|storage)[_-]?key"
_NAME = rf"[\w.-]*?(?P<kind>{_SURE}|{_MAYBE}|{_KEYS})"
_SECRET_NAME = re.compile(rf"{_NAME}\Z", re.IGNORECASE)
_FLAGS = frozenset(
    {"new-token", "no-password", "ask-pass", "ask-password", "password-stdin"}
)  # options without a value

_QUOTED = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'|" + r'\\+"[^"\n]*?\\+"'
_VALUE = rf"(?:{_QUOTED}|[^\s\"'&]+)"
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
_PATH = re.compile(r"(?:~|\.{1,2})?/|file:")

_PLAIN: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY[A-Z ]*)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        rf"-----\1 {MASK}-----",
    ),
    # JSON web tokens; then tokens that say whose they are: AWS, GitHub, GitLab, Slack, OpenAI, Google, Vault, npm, Keystone.
    (re.compile(r"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"), MASK),
    (
        re.compile(
            r"\b(?:(?:AKIA|ASIA|ABIA)[0-9A-Z]{16}\b|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
            r"|sk-[\w-]{20,}|[sr]k_(?:live|test)_\w{10,}|AIza[\w-]{30,}|hv[sb]\.[\w-]{20,}|npm_\w{30,}|gAAAAA[\w=-]{20,})"
        ),
        MASK,
    ),
    (
        re.compile(
            r"\b((?:proxy-)?authorization\\*[\"']?\s*[:=]\s*\\*[\"']?)(?!(?:\w+\s+)?\$\{[A-Z])(?:(?:digest|aws4-[\w-]+)\s[^\"'\r\n]+|"
            r"(?:(?:basic|bearer|token|negotiate|apikey|ntlm)\s+)?[^\s\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b((?:set-)?cookie: *)[^\"'\r\n]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(bearer\s+)(?=[\w.~+/=-]*\d|[\w.~+/=-]{20})[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    (
        re.compile(
            r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^/?#\s:@\"']*:)(?!\$\{)([^/?#\s\"']+)(?=@)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (
        re.compile(r"((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://)[\w.~-]{16,}(?=@)", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (
        re.compile(
            r"([?&;](?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig(?:nature)?|awsaccesskeyid|temp_url_sig"
            r"|code|auth|key(?==[^&\s]{16}))=)[^&\s\"'#]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    # mysql -psecret; sshpass -p secret; redis-cli -a secret; curl -u name:secret
    (re.compile(r"(\b(?:mysql|mariadb)[\w-]*\b[^|;&\n]{0,400}?\s-p)(?!\$|\*{3})[^\s\"']+"), rf"\1{MASK}"),
    (re.compile(r"(\bsshpass\s+-p\s*)(?!\$|\*{3})(?:'[^']*'|\"[^\"]*\"|\S+)"), rf"\1{MASK}"),
    (re.compile(r"(\bredis-cli\b[^|;&\n]{0,400}?\s-a\s+)(?!\$|\*{3})\S+"), rf"\1{MASK}"),
    (
        re.compile(
            r"(\b(?:curl|wget|ab|http)\b[^|;\n]{0,400}?\s(?:-u|--user|--proxy-user|-A|-P|-a)[ =]['\"]?[^\s:'\"]+:)"
            r"(?!//|\$|\*{3})[^\s'\"]+"
        ),
        rf"\1{MASK}",
    ),
)
_SUSPECT = re.compile(
    r"pass|pwd|secret|token|key|auth|bearer|cred|cookie|://|eyj|akia|asia|abia|gh[opsur]_|glpat|xox|sk-|[sr]k_|aiza|hv[sb]\."
    r"|npm_|gaaaa|mysql|mariadb|redis-cli|curl|wget|http",
    re.IGNORECASE,
)


def mask(text: str) -> str:
    """`text` with `***` for what looks like a secret. Masking twice changes nothing more.

    >>> mask("Authorization: Bearer abc.def-123"), mask("PGPASSWORD=x psql"), mask("--token-bucket 5 tokens=12 author: x")
    ('Authorization: ***', 'PGPASSWORD=*** psql', '--token-bucket 5 tokens=12 author: x')
    """
    return _remembered(text) if len(text) < _LONG else _mask(text)


def mask_texts(texts: Sequence[str]) -> list[tuple[int, str]]:
    """Those of many texts that masking changes, each with its place.

    >>> mask_texts(["GET /", "login password=hunter2"])
    [(1, 'login password=***')]
    """
    masked = ((place, text, mask(text)) for place, text in enumerate(texts))
    return [(place, after) for place, before, after in masked if before != after]


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Arguments of a command, each masked, and the one that follows an option like `--password`.

    >>> mask_argv(("psql", "--password", "hunter", "--table", "users"))
    ('psql', '--password', '***', '--table', 'users')
    """
    masked: list[str] = []
    awaited = program = ""
    for argument in argv:
        if awaited and not argument.startswith("-") and argument not in _PROSE:
            masked.append(_hidden(argument, awaited))
            awaited = ""
            continue
        awaited = argument.lstrip("-") if _takes_secret(argument) else ""
        name = argument.rpartition("/")[2]
        if name in _OF_PROGRAMS:
            program = name
        assigned = _WHOLE.match(argument)
        if assigned is not None and is_secret_name(assigned[1].lstrip("-")):
            masked.append(f"{assigned[1]}={_hidden(assigned[2], assigned[1].lstrip('-'))}")
        else:
            masked.append(_of_program(program, masked, mask(argument)))
    return tuple(masked)


def mask_command(line: str) -> str:
    """A command line as a shell would split it, masked; other text as `mask` does.

    >>> mask_command("sh -c 'mytool --password hunter'")
    "sh -c 'mytool --password ***'"
    """
    masked = mask(line)
    if _SUSPECT.search(masked) is None:
        return masked
    try:
        argv = shlex.split(masked)
    except ValueError:  # no command line
        return masked
    done = tuple(mask_command(word) if " " in word and len(argv) > 1 else word for word in mask_argv(argv))
    return masked if done == tuple(argv) else shlex.join(done)


def mask_value(value: Any, name: str = "") -> Any:
    """A copy of lists, mappings and texts in each other, masked; `name` is the key that `value` stands under.

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
            found = [_hidden(each, name) for each in value] if is_secret_name(name) else mask_argv(value)
            return type(value)(found)
        if value and not any(isinstance(each, str | Mapping | list | tuple) for each in value):
            return value
        return type(value)(mask_value(each, name) for each in value)
    return value


def mask_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's row, masked where it holds texts of others; its figures are not looked at, of which it has most."""
    return {key: value if key in FIGURES else mask_value(value, key) for key, value in row.items()}


def mask_yaml(text: str) -> str:
    """A YAML document with its values masked; as it was where nothing is, or where it is none."""
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
    """Whether what stands under this name is a secret: `db_password`, not `password_file` or `tokens`.

    >>> [is_secret_name(name) for name in ("PGPASSWORD", "api-key", "clientSecret", "tokens", "author", "bypass")]
    [True, True, True, False, False, False]
    """
    return _SECRET_NAME.match(name) is not None


def has_url_password(text: str) -> bool:
    """Whether a text holds a URL with a password in it, that is not given by name (`${NAME}`)."""
    return _URL_PASSWORD.search(text) is not None


_URL_PASSWORD = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^/?#\s]*:(?!\$\{[A-Z][A-Z0-9_]*\}@)[^/?#\s]*@", re.IGNORECASE
)
_WHOLE = re.compile(r"([\w.-]{1,80})=(.*)\Z", re.DOTALL)
_OF_PROGRAMS = frozenset(
    {"mysql", "mysqldump", "mysqladmin", "mysqlslap", "mariadb", "sshpass", "redis-cli", "curl"}
)


def _of_program(program: str, before: Sequence[str], argument: str) -> str:
    """An argument of a program that has its own way to be told a password."""
    last = before[-1] if before else ""
    if program.startswith(("mysql", "mariadb", "sshpass")) and re.match(r"-p.", argument):
        return argument if _BY_NAME.match(argument[2:]) else f"-p{MASK}"
    if (program, last) in {("sshpass", "-p"), ("redis-cli", "-a")}:
        return argument if _BY_NAME.match(argument) else MASK
    if program == "curl" and last in ("-u", "--user", "--proxy-user", "-U") and ":" in argument:
        user, _, password = argument.partition(":")
        return argument if _BY_NAME.match(password) else f"{user}:{MASK}"
    return argument


def _takes_secret(argument: str) -> bool:
    bare = argument.lstrip("-")
    return argument.startswith("-") and len(bare) > 3 and bare not in _FLAGS and is_secret_name(bare)


def _hidden(value: str, name: str) -> str:
    """What is shown of a value that stands under the name of a secret."""
    found = _SECRET_NAME.match(name)
    kind = found["kind"].lower() if found else ""
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


def _option(match: re.Match[str]) -> str:
    word, kind = match["value"], match["kind"].lower()
    if match["name"].lstrip("-").lower() in _FLAGS or word.lower().rstrip(".,:;") in _PROSE:
        return match[0]
    if not re.fullmatch(_SURE, kind) and word.isalpha() and word.islower() and len(word) < 6:
        return match[0]
    return f"{match['name']}{match['mid']}{_hidden(word, match['name'].lstrip('-'))}"


def _mask(text: str) -> str:
    if _SUSPECT.search(text) is None:
        return text
    for pattern, by in _PLAIN:
        text = pattern.sub(by, text)
    text = _ASSIGNED.sub(_assigned, text)
    text = _KEYED.sub(_keyed, text)
    return _OPTION.sub(_option, text)


_remembered = lru_cache(maxsize=1 << 16)(_mask)
