"""Secrets that show what they are by their shape: private keys, web tokens, tokens of services, credentials in URLs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

MASK = "***"
_PREFIXED = (
    r"(?:AKIA|ASIA|ABIA)[0-9A-Z]{16}\b|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
    r"|sk-[\w-]{20,}|[sr]k_(?:live|test)_\w{10,}|AIza[\w-]{30,}|hv[sb]\.[\w-]{20,}|npm_\w{30,}|gAAAAA[\w=-]{20,}"
    r"|pypi-[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|dckr_pat_[\w-]{16,}|hf_[A-Za-z0-9]{30,}|ya29\.[\w-]{20,}"
    r"|do[opr]_v1_[0-9a-f]{40,}|shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}|AGE-SECRET-KEY-1[0-9A-Z]{40,}"
)  # AWS, GitHub, GitLab, Slack, OpenAI, Stripe, Google, Vault, npm, Keystone, PyPI, SendGrid, Docker, Hugging Face, …
_SCHEME = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://"
SUSPECT = (
    r"bearer|basic|://|eyj|akia|asia|abia|gh[opsur]_|glpat|xox|sk-|[sr]k_|aiza|hv[sb]\.|npm_|gaaaa|pypi-|sg\.|dckr_|hf_|ya29"
    r"|do[opr]_v1|shp(?:at|ss|ca|pa)_|identified|login|requirepass|masterauth|chpasswd|stdin|sudo|@tcp|@unix|jdbc"
)


def _basic(match: re.Match[str]) -> str:
    """`Basic` and what decodes to NAME:PASSWORD, or is long and has digits; `Basic authentication` is prose."""
    word = match[2]
    try:
        plain = base64.b64decode(word + "=" * (-len(word) % 4), validate=True)
        is_pair = b":" in plain and plain.isascii()
    except (binascii.Error, ValueError):
        is_pair = False
    long = len(word) >= 16 and any(c.isdigit() for c in word) and any(c.isupper() for c in word)
    return f"{match[1]}{MASK}" if is_pair or long else match[0]


_SHAPES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY[A-Z ]*)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        rf"-----\1 {MASK}-----",
    ),
    (re.compile(r"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"), MASK),  # a JSON web token
    (re.compile(rf"\b(?:{_PREFIXED})"), MASK),
    (
        re.compile(
            r"\b((?:proxy-)?authorization\\*[\"']?\s*[:=,]\s*\\*[\"']?)(?!(?:\w+\s+)?(?:\$\{[A-Z]|\*{3}))"
            r"(?:(?:digest|aws4-[\w-]+)\s+(?:[\w-]+=(?:\\*\"[^\"\r\n]*\"|[^\s,\"']+)(?:,\s*)?)+"
            r"|(?:digest|aws4-[\w-]+)\s[^\"'\r\n]+|(?:(?:basic|bearer|token|negotiate|apikey|ntlm)\s+)?[^\s\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b((?:set-)?cookie: *)[^\"'\r\n]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(bearer\s+)(?=[\w.~+/=-]*\d|[\w.~+/=-]{20})[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(basic\s+)([A-Za-z0-9+/]{8,400}={0,2})(?![\w=])", re.IGNORECASE), _basic),
    (
        re.compile(rf"({_SCHEME})[^/?#\s:@\"'$*]{{6,}}(?=:x-oauth-basic@)", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (
        re.compile(rf"({_SCHEME}[^/?#\s:@\"']*:)(?!\$\{{)([^/?#\s\"']+)(?=@)", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (re.compile(rf"({_SCHEME})[\w.~-]{{16,}}(?=@)", re.IGNORECASE), rf"\1{MASK}"),
    (
        re.compile(
            r"([?&;#](?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig(?:nature)?|awsaccesskeyid|temp_url_sig"
            r"|code|auth|(?:key|sid|(?:j?session|phpsess)(?:[_-]?id)?)(?==[^&\s]{16}))=)[^&\s\"'#]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    # Addresses that are secrets as a whole: hooks of Slack and Discord, bots of Telegram.
    (re.compile(r"(\bhooks\.slack\.com/(?:services|workflows)/)[\w/]{20,}"), rf"\1{MASK}"),
    (re.compile(r"(\bdiscord(?:app)?\.com/api/webhooks/\d+/)[\w-]{20,}"), rf"\1{MASK}"),
    (re.compile(r"(\bapi\.telegram\.org/bot\d+:)[\w-]{20,}"), rf"\1{MASK}"),
    # Sources of databases: me:secret@tcp(host), jdbc:oracle:thin:me/secret@host
    (
        re.compile(r"((?<![\w.-])[\w.-]{1,64}:)(?!\$|\*{3})([^@\s\"']{1,200})(?=@(?:tcp|unix)\()"),
        rf"\1{MASK}",
    ),
    (
        re.compile(r"(\bjdbc:oracle:\w+:[\w.-]{1,64}/)(?!\$|\*{3})[^@\s\"']+(?=@)", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    # netrc, redis.conf, options of Windows, an encoded query, what is piped to a program that asks for a password
    (re.compile(r"(\blogin\s+\S+\s+password\s+)(?!\*{3})\S+"), rf"\1{MASK}"),
    (re.compile(r"^(\s*(?:requirepass|masterauth)\s+)(?!\*{3})\S+", re.MULTILINE), rf"\1{MASK}"),
    (re.compile(r"((?<!\S)/(?:pass|password|pwd):)[^\s\"']+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"((?:password|passwd|secret|token)%3D)(?:(?!%26)[^\s&\"'])+", re.IGNORECASE), rf"\1{MASK}"),
    (
        re.compile(
            r"(\b(?:echo|printf)\s+(?:-\w+\s+)*)(?!\$|\*{3})('[^'\n]*'|\"[^\"\n$]*\"|[^\s|'\"]+)"
            r"(?=\s*\|[^|\n]{0,200}(?:\bchpasswd|--password-stdin|\bsudo\s+(?:\S+\s+)*-S))"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\bidentified\s+by\s+)('[^'\n]*'|\"[^\"\n]*\")", re.IGNORECASE), rf"\1'{MASK}'"),
)


def mask_shapes(text: str) -> str:
    """Mask what is a secret by its shape.

    >>> mask_shapes("Basic QWxhZGRpbjpPcGVuU2VzYW1l is no Basic authentication; amqp://me:pw@host/")
    'Basic *** is no Basic authentication; amqp://me:***@host/'
    """
    for pattern, by in _SHAPES:
        text = pattern.sub(by, text)
    return text
