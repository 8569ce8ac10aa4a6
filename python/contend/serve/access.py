"""Who may ask: the address that is listened on, the names this host is asked under, and the token.

A page of another site cannot read what is served here, but it can have a name of its own point at this host (DNS
rebinding); so a request must name an address, or a name that is known to be this host's.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from contend.errors import BadInput

LEAST_TOKEN = 16  # characters; one that is made has 43


@dataclass(frozen=True, slots=True)
class Listen:
    """An address and port to listen at. Port 0 is any that is free.

    >>> Listen.parse("127.0.0.1:8330"), Listen.parse("[::1]:0").loopback, Listen.parse("0.0.0.0:80").loopback
    (Listen(address='127.0.0.1', port=8330), True, False)
    """

    address: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Parse ADDRESS:PORT. Raises BadInput."""
        hint = "write it like 127.0.0.1:8330, [::1]:8330, or 0.0.0.0:8330 for all addresses"
        address, colon, port = text.rpartition(":")
        address = address.removeprefix("[").removesuffix("]")
        if not colon or not address or not (port.isascii() and port.isdigit() and int(port) < 2**16):
            raise BadInput(f"'{text}' is not ADDRESS:PORT", hint=hint)
        address = "127.0.0.1" if address == "localhost" else address
        try:
            return cls(str(ipaddress.ip_address(address)), int(port))
        except ValueError as error:
            raise BadInput(f"'{address}' is not an address of a host", hint=hint) from error

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    def url(self, port: int) -> str:
        """The URL to type; of all addresses, the name of this host."""
        address = ipaddress.ip_address(self.address)
        name = socket.gethostname() if address.is_unspecified else self.address
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


@dataclass(frozen=True, slots=True)
class Access:
    """Decides on a request by its headers alone. token: None asks for none."""

    loopback: bool
    token: str | None = None
    names: frozenset[str] = frozenset()
    session: str = field(
        default_factory=lambda: secrets.token_urlsafe(32)
    )  # what a browser is given for the token

    def knows(self, host: str | None) -> bool:
        """True if a Host header names this host.

        >>> local = Access(loopback=True)
        >>> [local.knows(h) for h in ("127.0.0.1:8330", "localhost", "[::1]:1", "evil.example", "192.0.2.1", None)]
        [True, True, True, False, False, False]
        >>> Access(loopback=False, names=frozenset({"web-17"})).knows("WEB-17:80")
        True
        """
        name = _host_of(host or "")
        if not name:
            return False
        if name == "localhost" or name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.loopback  # an address cannot be made to point elsewhere

    def admits(self, authorization: str | None, cookie: str | None, cookie_name: str) -> bool:
        """True if the token came with the request, in the header, or in the cookie that stands for it."""
        if self.token is None:
            return True
        kind, _, given = (authorization or "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        # By hand: cookies are of a host, not of a port, and http.cookies drops all of a header for one of them that is odd.
        sent = (part.strip().partition("=") for part in (cookie or "").split(";"))
        return any(name == cookie_name and same(value, self.session) for name, _, value in sent)

    def is_token(self, given: str) -> bool:
        return self.token is not None and same(given, self.token)


def same(one: str, other: str) -> bool:
    """True if both are equal; takes the same time wherever they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _host_of(header: str) -> str:
    """The name in a Host header, without port and brackets, small; "" for what is none."""
    header = header.strip().lower()
    if header.startswith("["):
        name, bracket, rest = header[1:].partition("]")
        return name if bracket and (not rest or _is_port(rest)) else ""
    name, colon, port = header.partition(":")
    if colon and not _is_port(f":{port}"):
        return ""
    return name.removesuffix(".")


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdigit()


def own_names(more: Iterable[str]) -> frozenset[str]:
    """Names of this host in requests: its own, and what the user adds."""
    return frozenset(name.lower().removesuffix(".") for name in (socket.gethostname(), *more) if name)


def choose_token(listen: Listen, token_file: Path | None, *, new: bool) -> str | None:
    """Choose the token that requests must have; None where none is needed. Raises BadInput where one is needed and none
    was given."""
    if token_file is not None:
        return read_token(token_file)
    if new:
        return secrets.token_urlsafe(32)
    if not listen.loopback:
        raise BadInput(
            f"{listen.address} can be reached by others, and no token was given",
            hint="--new-token makes one and prints it once; --token-file FILE reads yours",
        )
    return None


def read_token(path: Path) -> str:
    """Read a token: the first line of a file. Raises BadInput for one that cannot be read, or is too short to be a
    secret."""
    try:
        with path.open(encoding="utf-8") as file:
            token = file.readline(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadInput(f"cannot read the token in '{path}': {why}", hint="--new-token makes one") from error
    if len(token) < LEAST_TOKEN or not token.isprintable() or " " in token:
        raise BadInput(
            f"'{path}' holds no token: {LEAST_TOKEN} characters at least, without spaces, in its first line",
            hint=f"openssl rand -hex 32 > {path}; --new-token makes one and prints it once",
        )
    return token


def others_can_read(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o077)
