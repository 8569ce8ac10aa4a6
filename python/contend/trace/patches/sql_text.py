"""Words for a statement: its text without any value, on one line, and a short title."""

from __future__ import annotations

import re

_MOST_LIST = 40
_MOST_TITLE = 160

# In the order in which they are looked for, where one may hold another.
_VALUES = re.compile(
    r"""
      --[^\n]* | /\*.*?\*/                                  # comments: some carry data
    | (?P<value>
        [xXbBnNeE]?'(?:[^']|'')*'                           # strings
      | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$                     # PostgreSQL's
      | %\(\w+\)s | %s | (?<![:\w]):\w+ | \$\d+ | \?\d*     # where parameters go
      | (?<![\w$@#])(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\b
      )
    | (?P<quoted> "(?:[^"]|"")*" )
    | `[^`]*` | \[[A-Za-z_][\w$\# ]*\]                       # names
    """,
    re.VERBOSE | re.DOTALL,
)
# Whether a backslash escapes a quote depends on the server and its settings; Oracle has quotes of one's choice.
_UNCLEAR = re.compile(r"\\|\b[nN]?[qQ]'")
_NAMED_BEFORE = re.compile(r"(?:\.|\b(?:AS|FROM|INDEX|INTO|JOIN|ON|SELECT|TABLE|UPDATE))\s*\Z", re.IGNORECASE)
# Oracle takes a password for a name.
_PASSWORD = re.compile(r"(\bIDENTIFIED\s+(?:WITH\s+\S+\s+)?BY\s+)(?:\"[^\"]*\"|\S+)", re.IGNORECASE)
_ONE_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)+\s*\)")
_LISTS = re.compile(r"\(\?\)(?:\s*,\s*\(\?\))+")
_BLANKS = re.compile(r"\s+")
_SELECT = re.compile(r"SELECT\s+(?:DISTINCT\s+)?", re.IGNORECASE)
_FROM = re.compile(r"[()]|\bFROM\b", re.IGNORECASE)
_INSERT = re.compile(r"((?:INSERT|REPLACE)\s[^(]*)\([^()]{41,}\)", re.IGNORECASE)


def without_values(statement: str, dialect: str = "") -> str:
    """A statement with numbers, strings and parameters as ?, lists of them as one; comments left out.

    Text in double quotes is a name, but may be a string in MySQL and SQLite: there it stays where only names can be.

    >>> without_values("SELECT a FROM t WHERE b = 'it''s' AND c IN (%s, %s) AND d2 > 1.5e3 -- why")
    'SELECT a FROM t WHERE b = ? AND c IN (?) AND d2 > ?'
    """
    names_in_quotes = dialect not in ("", "mariadb", "mysql", "sqlite")

    def put(match: re.Match[str]) -> str:
        if match["value"] is not None:
            return "?"
        if match["quoted"] is not None:
            before, after = statement[max(0, match.start() - 16) : match.start()], statement[match.end() :]
            if names_in_quotes or after.startswith(".") or _NAMED_BEFORE.search(before):
                return match[0]
            return "?"
        return " " if match[0].startswith(("--", "/*")) else match[0]

    unclear = _UNCLEAR.search(statement)
    if unclear:
        statement = re.split(r"['\"$]", statement, maxsplit=1)[0] + "'"
    text = _VALUES.sub(put, statement)
    text = _PASSWORD.sub(r"\1?", text)
    # What a quote is left open in is not understood.
    text, torn, _ = text.partition("'")
    text = _BLANKS.sub(" ", text + ("…" if torn else "")).strip()
    return _LISTS.sub("(?)", _ONE_LIST.sub("(?)", text))


def title(text: str) -> str:
    """The name of a statement's span: long lists of columns as …, and no longer than a line.

    >>> title("SELECT " + ", ".join(f"t.column_{n}" for n in range(20)) + " FROM t WHERE t.id = ?")
    'SELECT … FROM t WHERE t.id = ?'
    """
    begin = _SELECT.match(text)
    if begin:
        end = _end_of_columns(text, begin.end())
        if end - begin.end() > _MOST_LIST:
            text = f"{text[: begin.end()]}… {text[end:]}"
    else:
        text = _INSERT.sub(r"\1(…)", text, count=1)
    return text if len(text) <= _MOST_TITLE else text[: _MOST_TITLE - 1] + "…"


def _end_of_columns(text: str, start: int) -> int:
    """Where the FROM is that is in no parentheses; the start if there is none."""
    depth = 0
    for match in _FROM.finditer(text, start):
        if match[0] in "()":
            depth += 1 if match[0] == "(" else -1
        elif depth == 0:
            return match.start()
    return start
