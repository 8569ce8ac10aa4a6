"""Answers to a browser, and what it may do with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

HTML = "text/html; charset=utf-8"

# Said with every answer: nothing of ours is for another site, another origin or a frame, or to be kept.
COMMON = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# Our own pages load style and script from here and nothing else; charts set style attributes, and are drawn by an
# interpreter, so that no text is run as code.
OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A picture is looked at, and does nothing, also where somebody opens it by itself.
PICTURE = "sandbox; default-src 'none'; frame-ancestors 'none'"
# A report holds all that it needs, and is code of whoever made it. It is run as its own policy has it, and in a sandbox:
# of no origin, it has no cookie of ours, reads no other run, and sends nothing to any host, this one included.
REPORT = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Answer:
    """An answer to a request. `file`: a descriptor to send instead of the body, closed by whoever sends it."""

    body: bytes = b""
    status: int = 200
    content_type: str = HTML
    policy: str = OWN
    headers: Mapping[str, str] = field(default_factory=dict)
    file: int = -1


def plain(status: int, text: str, **headers: str) -> Answer:
    """Answer with a line of text. headers: with _ for -."""
    by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(f"{text}\n".encode(), status, "text/plain; charset=utf-8", headers=by_name)


def redirect(to: str, **headers: str) -> Answer:
    """Redirect to another path on this host. headers: with _ for -."""
    by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(b"", HTTPStatus.SEE_OTHER, headers={"Location": to, **by_name})
