"""A broker of the user's: checks that it answers and lets contend in, and removes contend's queues from it.

By py-amqp, which oslo.messaging uses too: what one is let in by, so is the other. What it says never shows the password.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from contend.errors import BadInput, CannotHonour, HostFailed

_SHAPE = "like rabbit://USER:PASSWORD@HOST:5672/VHOST"
_CONNECT_S = 10.0


@dataclass(frozen=True)
class Url:
    """The first host that a transport_url names. No message shows its password."""

    host: str
    port: int
    user: str
    password: str
    vhost: str
    tls: bool
    authority: str = ""

    @classmethod
    def parse(cls, text: str) -> Url:
        """Parse a transport_url. Raises BadInput.

        >>> one = Url.parse("rabbit://me:secret@a:1,me:secret@b:2/v%2Fh?ssl=1&ssl_ca_file=/ca.pem")
        >>> one.host, one.port, one.vhost, one.tls, one.authority
        ('a', 1, 'v/h', True, '/ca.pem')
        """
        scheme, _, rest = text.partition("://")
        if scheme not in ("rabbit", "amqp", "kombu"):
            raise BadInput("the broker's URL is not RabbitMQ's", hint=_SHAPE)
        hosts, slash, path = rest.partition("/")
        try:
            parts = urlsplit(f"//{hosts.partition(',')[0]}{slash}{path}")
            host, port = parts.hostname, parts.port or 5672
        except ValueError as error:
            raise BadInput("the broker's URL has no HOST:PORT", hint=_SHAPE) from error
        if not host:
            raise BadInput("the broker's URL names no host", hint=_SHAPE)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        tls = options.get("ssl", "").lower() in ("1", "true")
        known = parts.username is not None
        user, password = (
            (unquote(parts.username or ""), unquote(parts.password or "")) if known else ("guest",) * 2
        )
        vhost = unquote(parts.path.removeprefix("/")) or "/"
        return cls(host, port, user, password, vhost, tls, options.get("ssl_ca_file", ""))


def check(url: str) -> str:
    """Log in to the broker and return its version. Raises BadInput for what the user can repair."""
    with _open(url) as connection:
        return str(connection.server_properties.get("version", ""))


def remove(url: str, queues: Sequence[str], exchanges: Sequence[str]) -> None:
    """Remove queues and exchanges; those that are not there are no error. Raises BadInput, HostFailed."""
    with _open(url) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_delete(queue)
        for exchange in exchanges:
            channel.exchange_delete(exchange)


@contextmanager
def _open(text: str) -> Iterator[Any]:
    try:
        import amqp
    except ImportError as error:
        raise CannotHonour(
            "a broker elsewhere needs py-amqp, which is not installed", hint="pip install 'contend[rpc]'"
        ) from error
    url = Url.parse(text)
    where = f"{url.host}:{url.port}"
    if url.authority and not Path(url.authority).is_file():
        raise BadInput(f"there is no ssl_ca_file {url.authority}", hint="name a file of certificates")
    # Names are checked as in any browser; ssl_ca_file: whom to trust in the host's authorities' stead.
    trusted = {
        "cert_reqs": ssl.CERT_REQUIRED,
        "ca_certs": url.authority or None,
        "server_hostname": url.host,
    }
    connection = amqp.Connection(
        where,
        userid=url.user,
        password=url.password,
        virtual_host=url.vhost,
        connect_timeout=_CONNECT_S,
        read_timeout=_CONNECT_S,
        ssl=trusted if url.tls else False,
        client_properties={"connection_name": "contend"},
    )
    try:
        connection.connect()
    except amqp.exceptions.AccessRefused as error:
        raise BadInput(
            f"the broker at {where} refuses the user or the password", hint="check the transport URL"
        ) from error
    except amqp.exceptions.NotAllowed as error:
        raise BadInput(
            f"the broker at {where} refuses the virtual host '{url.vhost}'",
            hint="does it exist, and may that user use it?",
        ) from error
    except ssl.SSLError as error:
        raise BadInput(
            f"TLS with the broker at {where} failed: {error.reason or error}",
            hint="does that port speak TLS, and is its certificate from whom ssl_ca_file names?",
        ) from error
    except (OSError, amqp.exceptions.AMQPError) as error:
        raise BadInput(
            f"cannot connect to the broker at {where}: {error}", hint="is it up, on that address and port?"
        ) from error
    try:
        yield connection
    except (OSError, amqp.exceptions.AMQPError) as error:
        raise HostFailed(f"the broker at {where} failed: {error}", hint="its log says why") from error
    finally:
        connection.close()
