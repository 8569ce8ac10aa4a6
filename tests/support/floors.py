"""What no program can do without: CPU time that hashing and decrypting take here, measured beside what is held to it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_RECORD = 16 << 10  # of TLS, at most
_BYTES = 4 << 20
_TURNS = 7


def sha512_s_per_gb() -> float:
    """Seconds on a CPU for 10^9 bytes, by OpenSSL's."""
    data = bytes(_BYTES)
    return _fastest(lambda: hashlib.sha512(data).digest())


def aes_s_per_gb() -> float:
    """Seconds on a CPU to decrypt 10^9 bytes of TLS records, by OpenSSL's AES-128-GCM: no suite of TLS 1.3 that is in use
    takes less where the CPU has AES."""
    key, nonce = AESGCM(bytes(16)), bytes(12)
    record = key.encrypt(nonce, bytes(_RECORD), None)

    def all_records() -> None:
        for _ in range(_BYTES // _RECORD):
            key.decrypt(nonce, record, None)

    return _fastest(all_records)


def _fastest(work: Callable[[], object]) -> float:
    took = []
    for _ in range(_TURNS):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took) / _BYTES * 1e9
