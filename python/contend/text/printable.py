"""Text of strangers, made safe to print: names of files and processes, rows of foreign runs, outputs of tools.

A terminal obeys what it is sent: a name that holds `ESC ]0;` sets its title, others move the cursor, hide lines or answer
as if typed. So every such text goes through `printable` where it is printed.
"""

from __future__ import annotations

import re

# C0 but the tab, DEL, C1; characters that turn the direction of text or cannot be seen; lone surrogates (bytes that are no
# UTF-8, as Python decodes file names).
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, *, lines: bool = False) -> str:
    r"""`text` with control characters and undecodable bytes written as escapes. With `lines`, line ends stay.

    >>> printable("a\x1b]0;owned\x07b")
    'a\\x1b]0;owned\\x07b'
    >>> printable("one\ntwo"), printable("one\ntwo", lines=True)
    ('one\\ntwo', 'one\ntwo')
    >>> printable(b"caf\xe9".decode("utf-8", "surrogateescape"))
    'caf\\xe9'
    """
    return _UNSAFE.sub(lambda match: match[0] if lines and match[0] == "\n" else _escape(match[0]), text)


def passage(text: str, most: int = 2000) -> str:
    """Make a message of several lines safe to print: `printable`, with its middle left out beyond `most` characters.

    >>> passage("a" * 30, most=20)
    'aaaaaaaaaaaaaaa… (10 characters left out) …aaaaa'
    """
    if len(text) > most:
        head, tail = most - most // 4, most // 4
        text = f"{text[:head]}… ({len(text) - most:,} characters left out) …{text[-tail:]}"
    return printable(text, lines=True)


def short(value: object, most: int = 60) -> str:
    """Make a value fit for an error message: `printable`, with its middle left out beyond `most` characters.

    >>> short("inf"), short("9" * 5000, most=20)
    ('inf', '9999999… (5,000 characters)')
    """
    text = str(value) if not isinstance(value, int) or abs(value) < 10**most else hex(value)
    shown = printable(text[: most + 1])
    return shown if len(text) <= most else f"{shown[: most // 3 + 1]}… ({len(text):,} characters)"


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # PEP 383
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(
        character, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    )
