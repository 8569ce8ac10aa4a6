"""Requests to a cloud's APIs: pooled connections, the token, what is counted, and what may be sent again.

Sent again is only what changes nothing a second time: reads and deletions, and any request that was certainly not
acted upon, because it never left, or was turned away by a rate limit (429) or for an old token (401). A creation whose
answer was lost, or was an error of the server, is the caller's to look for by name.

Redirects are followed on the same host only: the token is for no other.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from contend.clouds import config_files
from contend.clouds.access import Access
from contend.clouds.wire import Headers, Lost, NotSent, Untrusted, Wire, split_url
from contend.errors import BadInput, HostFailed

if TYPE_CHECKING:
    import ssl

ATTEMPTS = 5
BACKOFF_S = 0.25  # doubled with every attempt
MOST_WAIT_S = 60.0  # a Retry-After beyond it is a refusal
CONNECT_S, READ_S = 10.0, 120.0
REDIRECTS = 5
_AGAIN = frozenset({"GET", "HEAD", "DELETE"})
_MICROVERSION = {"compute": "compute", "block-storage": "volume"}


class RequestFailed(HostFailed):
    """A request that was not honoured. `status` is 0 without an answer: then nobody knows whether it was acted upon."""

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status

    @property
    def unknown(self) -> bool:
        """True if it may have been acted upon all the same: no answer, or a server's error."""
        return self.status == 0 or self.status >= 500


class Answer(NamedTuple):
    """A whole answer, with its stamps of CLOCK_MONOTONIC, ns: when the request was written to a connection, and when
    all of the attempt that it answers: its request was written to a connection, and all of it was there."""

    status: int
    headers: Headers
    body: bytes
    sent_ns: int
    received_ns: int

    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}


class Outcome(NamedTuple):
    """How one attempt ended. `left` is False when the request certainly never reached a server; `status` 0: no answer."""

    status: int
    left: bool = True
    retry_after_s: float | None = None


def wait_before_again(method: str, outcome: Outcome, attempt: int) -> float | None:
    """Seconds to wait before the request is sent again; None: do not send it again. attempt: the one that failed, from
    1.

    >>> wait_before_again("POST", Outcome(429, retry_after_s=2.0), 1)
    2.0
    >>> wait_before_again("POST", Outcome(500), 1) is None, wait_before_again("GET", Outcome(500), 1)
    (True, 0.25)
    >>> wait_before_again("POST", Outcome(0, left=False), 2), wait_before_again("POST", Outcome(0), 2) is None
    (0.5, True)
    """
    if attempt >= ATTEMPTS:
        return None
    backoff: float = BACKOFF_S * 2 ** (attempt - 1)
    named_s = outcome.retry_after_s
    if outcome.status == 429:
        wait = backoff if named_s is None else named_s
        return wait if wait <= MOST_WAIT_S else None
    if not outcome.left:
        return backoff
    if outcome.status == 0 or outcome.status >= 500:
        if method not in _AGAIN:
            return None
        return backoff if named_s is None else min(named_s, MOST_WAIT_S)
    return None


class Api:
    """One cloud's APIs, for any number of threads. `counts` tells what went wrong on the way: rate limited (429),
    server error (5xx), no answer, token renewed; and requests, all attempts together."""

    def __init__(
        self,
        access: Access,
        renew: Callable[[], Access] | None = None,
        *,
        connections: int = 4,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self.counts: Counter[str] = Counter()
        self._renew, self._sleep = renew, sleep
        self._lock = threading.Lock()
        self._wire = Wire(
            keep=connections,
            connect_s=CONNECT_S,
            read_s=READ_S,
            context=lambda: tls_context(access),
            proxy=proxy_for,
        )

    def request(
        self,
        method: str,
        service: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        version: str = "",
        absent: bool = False,
    ) -> Answer:
        """Send a request and return the last attempt's answer, of status 2xx; with `absent` also 404. Raises
        RequestFailed.

        version: the microversion to ask for.
        """
        url = path if path.startswith("http") else self.access.endpoint(service) + path
        content = None if body is None else json.dumps(body).encode()
        attempt = redirects = 0
        while True:
            attempt += 1
            token = self.access.token
            headers = self._headers(service, version, token, content)
            answer, outcome, why = self._once(method, url, content, headers)
            if answer is not None and (answer.status < 300 or (absent and answer.status == 404)):
                return answer
            if answer is not None and redirects < REDIRECTS and (other := redirected(method, url, answer)):
                url, redirects, attempt = other, redirects + 1, attempt - 1
                continue
            if outcome.status == 401 and attempt == 1 and self._renewed(token):
                continue
            wait = wait_before_again(method, outcome, attempt)
            if wait is None:
                raise RequestFailed(
                    f"{method} {path.partition('?')[0]}: {why}", status=outcome.status, hint=_hint(outcome)
                )
            self._sleep(wait)

    def _once(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]
    ) -> tuple[Answer | None, Outcome, str]:
        self._count("requests")
        try:
            got = self._wire.exchange(method, url, headers, content)
        except NotSent as error:
            self._count("no connection")
            return None, Outcome(0, left=False), f"no connection: {error}"
        except Untrusted as error:
            raise RequestFailed(
                f"TLS: {error}", status=0, hint="see cacert, cert and verify in clouds.yaml"
            ) from error
        except Lost as error:
            self._count("no answer")
            return None, Outcome(0), f"no answer: {error}"
        answer = Answer(got.status, got.headers, got.body, got.sent_ns, time.monotonic_ns())
        if got.status < 300:
            return answer, Outcome(got.status), ""
        if got.status == 429:
            self._count("rate limited (429)")
        elif got.status >= 500:
            self._count("server error (5xx)")
        return (
            answer,
            Outcome(got.status, retry_after_s=_seconds(got.headers.get("Retry-After"))),
            error_text(answer),
        )

    def _renewed(self, token: str) -> bool:
        """After a 401: whether there is another token to try, by now or from `renew`."""
        if self._renew is None:
            return False
        with self._lock:  # one login for all threads that were turned away
            if self.access.token == token:
                self.access = self._renew()
                self.counts["token renewed"] += 1
        return True

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _headers(self, service: str, version: str, token: str, content: bytes | None) -> dict[str, str]:
        headers = {"X-Auth-Token": token, "Accept": "application/json", "User-Agent": "contend"}
        if version:
            headers["OpenStack-API-Version"] = f"{_MICROVERSION.get(service, service)} {version}"
        if content is not None:
            headers["Content-Type"] = "application/json"
        return headers

    def close(self) -> None:
        self._wire.close()


def redirected(method: str, url: str, answer: Answer) -> str:
    """The URL that an answer redirects to, "" for none. Raises RequestFailed for a host that the token is not for.

    Only what changes nothing is sent elsewhere after 301 and 302: others are then not meant to be sent as they are.
    """
    where: str | None = answer.headers.get("Location")
    if where is None or answer.status not in (301, 302, 307, 308):
        return ""
    if method not in ("GET", "HEAD") and answer.status not in (307, 308):
        return ""
    other = urljoin(url, where)
    old, _ = split_url(url)
    try:
        new, _ = split_url(other)
        same = new.host == old.host and (new.scheme == "https" or old.scheme == "http")
    except NotSent:
        same = False
    if not same:
        raise RequestFailed(
            f"{method} {old.authority} is redirected to {other.partition('?')[0][:80]}",
            status=answer.status,
            hint="the token goes to no other host, and not from https to http: is the catalogue's endpoint right?",
        )
    return other


def tls_context(access: Access) -> ssl.SSLContext:
    """Make the TLS context that clouds.yaml describes. Raises BadInput for certificates that cannot be read."""
    import ssl

    config_files.check_trusted()
    try:
        if access.verify is False:  # the user's own choice in clouds.yaml
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif isinstance(access.verify, str):
            directory = Path(access.verify).is_dir()
            context = ssl.create_default_context(
                cafile=None if directory else access.verify, capath=access.verify if directory else None
            )
        else:
            context = ssl.create_default_context()
        if access.certificate is not None:
            context.load_cert_chain(*access.certificate)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"the certificates of cloud '{access.cloud}' cannot be read: {error}",
            hint="see cacert, cert and key in clouds.yaml",
        ) from error
    return context


def proxy_for(url: str) -> str:
    """The proxy that the environment names for it, "" for none. By the rules of requests, which logins go through."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return ""
    from requests.utils import get_environ_proxies, select_proxy

    return str(select_proxy(url, get_environ_proxies(url)) or "")


def error_text(answer: Answer) -> str:
    """The message of an API's error, in one line: nova's {"forbidden": {"message": …}} and the others' shapes."""
    text = ""
    try:
        data = answer.json()
    except ValueError:
        data = None
    inner = next(iter(data.values()), None) if isinstance(data, dict) else None
    if isinstance(inner, dict):
        text = str(inner.get("message") or inner.get("detail") or "")
    elif isinstance(data, dict):
        text = str(data.get("message") or data.get("NeutronError") or "")
    if not text:
        text = answer.body[:200].decode("utf-8", errors="replace")
    return f"{answer.status} {' '.join(text.split())[:300]}".strip()


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; its other form, a date, is left to the back-off."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


def _hint(outcome: Outcome) -> str:
    return {
        0: "is the service up? its log may say more",
        401: "the token is no longer taken: are user and password right?",
        403: "a quota, or a right that this user lacks: openstack quota show",
        409: "something with that name, or in that state, is in the way",
        413: "a quota: openstack quota show",
        429: "the cloud limits the rate of requests: a smaller n, or a rate",
    }.get(outcome.status, "the service's log says more")
