"""URLs with passwords: given by the environment or a file, and shown to nobody."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from contend.errors import BadInput
from contend.files import text_named
from contend.text.masking import has_url_password

FILE = "file:"
MOST_BYTES = 1 << 16  # of a file with a URL
DATABASE, BROKER = "CONTEND_DATABASE_URL", "CONTEND_BROKER_URL"
NOTIFICATIONS = "CONTEND_NOTIFICATIONS_URL"


def find_url(given: str, variable: str, environ: Mapping[str, str] = os.environ) -> SplitResult | None:
    """The URL that an option gives, or the environment's `variable`; None where neither does.

    An option is a URL without a password, or `file:PATH`; the variable may be either, or a URL with a password. Raises
    BadInput, whose message holds no URL.
    """
    if has_url_password(given):
        raise BadInput(
            "a URL with a password is no option: others see it, and the run records it",
            hint=f"put it into the environment variable {variable}, or into a file: file:PATH",
        )
    text, where = (given, "the option") if given else (environ.get(variable, ""), variable)
    if text.startswith(FILE):
        where = text.removeprefix(FILE)
        text = text_named(Path(where), most=MOST_BYTES, hint="file:PATH of a URL").strip()
    if not text:
        return None
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        port = -1
    if port == -1 or "://" not in text:
        raise BadInput(f"what {where} holds is no URL", hint="scheme://user:password@host:port/")
    return url


def login_of(url: SplitResult) -> tuple[str, str]:
    """User and password of a URL, decoded; "" for one that it does not have.

    >>> login_of(urlsplit("amqp://a:b%2Fc@h/"))
    ('a', 'b/c')
    """
    return unquote(url.username or ""), unquote(url.password or "")
