"""Servers on loopback that speak HTTP word by word, with and without TLS, and proxies in front of them."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
# What a server says to one request; None closes the connection without a word.
Reply = Callable[[bytes], bytes | None]


@dataclass
class Server:
    host: str
    port: int
    scheme: str = "http"
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@contextmanager
def serving(
    reply: Reply | bytes = OK,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    closes: bool = False,
    handle: Callable[[socket.socket, bytes], None] | None = None,
) -> Iterator[Server]:
    """One request after the other on each connection. closes: after each answer. handle: takes a connection over."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    threads: list[threading.Thread] = []
    opened: list[socket.socket] = []
    with socket.create_server((host, 0), family=family) as listener:
        server = Server(host, listener.getsockname()[1], "https" if tls else "http")

        def talk(taken: socket.socket) -> None:
            try:
                spoken = tls.wrap_socket(taken, server_side=True) if tls else taken
                opened.append(spoken)  # wrapping has taken the descriptor over
                with spoken:
                    while request := read_request(spoken):
                        server.requests.append(request)
                        if handle is not None:
                            handle(spoken, request)
                            return
                        said = reply if isinstance(reply, bytes) else reply(request)
                        if said is None:
                            return
                        spoken.sendall(said)
                        if closes:
                            return
            except OSError:
                taken.close()

        def accept() -> None:
            while True:
                try:
                    taken, _ = listener.accept()
                except OSError:
                    return
                server.connections += 1
                opened.append(taken)
                threads.append(threading.Thread(target=talk, args=(taken,), daemon=True))
                threads[-1].start()

        waiting = threading.Thread(target=accept, daemon=True)
        waiting.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            waiting.join()
            for taken in opened:
                with suppress(OSError):
                    taken.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def read_request(spoken: socket.socket) -> bytes:
    """Head and body; empty where the connection was closed before it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = spoken.recv(1 << 16)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower()[:15] == b"content-length:"), 0
    )
    while len(body) < length:
        body += spoken.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def connecting(spoken: socket.socket, request: bytes) -> None:
    """What a proxy does after CONNECT: bytes go both ways until one side ends."""
    host, _, port = request.split()[1].decode().rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port))) as far:
        spoken.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = threading.Thread(target=_pump, args=(far, spoken), daemon=True)
        back.start()
        _pump(spoken, far)
        back.join()


def _pump(source: socket.socket, to: socket.socket) -> None:
    try:
        while piece := source.recv(1 << 16):
            to.sendall(piece)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Authority:
    """A throw-away certificate authority in a directory; `file` is its certificate."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "throw-away")])
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        made = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        made = made.add_extension(usage, critical=True)
        self.file = place / "authority.pem"
        self.file.write_bytes(self._signed(made))

    def certificate(self, *names: str) -> tuple[Path, Path]:
        """Of a server of those names or addresses, or of a client: files of the certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        made = self._builder(subject, key).add_extension(alternatives, critical=False)
        number = len(list(self._place.iterdir()))
        files = self._place / f"{number}.pem", self._place / f"{number}.key"
        files[0].write_bytes(self._signed(made))
        plain = serialization.NoEncryption()
        files[1].write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        )
        return files

    def server(self, *names: str, client_wanted: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.file)
        context.load_cert_chain(*self.certificate(*names))
        if client_wanted:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )

    def _signed(self, made: x509.CertificateBuilder) -> bytes:
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
