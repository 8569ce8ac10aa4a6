"""The certificates of one fleet: an authority made for it, whose key never leaves the starting machine's memory, and one
certificate for every member. Dask asks both ends of every connection for one of this authority (its Security).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

DAYS = 365
COORDINATOR = "contend-coordinator"


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM texts: the authority's certificate, a member's own, and its key."""

    authority: str
    own: str
    key: str


def make(names: Iterable[str]) -> dict[str, Certificate]:
    """Make a certificate for each name, all of one new authority. Keys are elliptic (P-256): a thousand take a second.

    >>> made = make(["a", "b"])
    >>> made["a"].authority == made["b"].authority, made["a"].key == made["b"].key
    (True, False)
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    root_key = ec.generate_private_key(ec.SECP256R1())

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])

    def build(subject: str, public: ec.EllipticCurvePublicKey, *, authority: bool) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named("contend-fleet"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            # A day earlier: hosts' calendars may be behind.
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=DAYS))
            .add_extension(
                x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True
            )
            .sign(root_key, hashes.SHA256())
        )

    def text(certificate: x509.Certificate) -> str:
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    root = text(build("contend-fleet", root_key.public_key(), authority=True))
    made = {}
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        made[name] = Certificate(root, text(build(name, key.public_key(), authority=False)), private)
    return made
