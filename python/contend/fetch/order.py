"""Orders to fetch, as contend-fetch takes them: see crates/fetch/src/order.rs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn

from contend.errors import BadInput, HostFailed
from contend.platforms import programs
from contend.text.shape import Count, Shape
from contend.text.shape import Limits as Keywords

ALGORITHMS = ("sha512", "sha384", "sha256", "sha1", "md5")
_RATE = re.compile(
    r"^\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kMGT]?)(i?)(B|b|bit)?(?:/s|ps)?\s*$", re.IGNORECASE
)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True)
class Checksum(Shape):
    """The hash that content must have."""

    algorithm: Annotated[str, Keywords(enum=list(ALGORITHMS))]
    value: Annotated[str, "hexadecimal digits"]


@dataclass(frozen=True, slots=True)
class Fetched(Shape):
    """The outcome of a download, as crates/fetch/src/main.rs prints it."""

    output: Annotated[str | None, "the file; null where it went to stdout"]
    bytes: Annotated[Count, "of the whole"]
    resumed_bytes: Annotated[Count, "that an earlier attempt had left"]
    attempts: Count
    checksum: Annotated[Checksum | None, "that it was verified by"]
    verified: bool
    length_known: Annotated[bool, "false: only the end of the connection said that all of it came"]
    wall_ns: Count
    cpu_ns: Annotated[Count, "of the whole process"]


@dataclass(frozen=True, slots=True)
class Source:
    """Address of the content. headers: for that server alone. size: bytes, where they are known from elsewhere. verify:
    a file or directory of authorities; True: the system's; False: whoever answers is believed."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    checksum: Checksum | None = None
    size: int | None = None
    verify: bool | str = True
    certificate: tuple[str, str | None] | None = None
    name: str = ""
    file_name: str = ""  # what it is called where nobody named a file


@dataclass(frozen=True, slots=True)
class Limits:
    """cpu_max: of one CPU, 0.2 is a fifth. rate: bytes a second. timeout_s: of silence. retries: in a row, without a
    byte of progress."""

    cpu_max: float | None = None
    rate: float | None = None
    nice: int = 10
    timeout_s: float = 30.0
    retries: int = 5


def parse_checksum(text: str) -> Checksum:
    """Parse `sha256:…` or, where the digits tell the algorithm, the digits alone. Raises BadInput.

    >>> parse_checksum("md5:D41D8CD98F00B204E9800998ECF8427E").value
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    algorithm, colon, digits = text.strip().partition(":")
    if not colon:
        lengths = {128: "sha512", 96: "sha384", 64: "sha256", 40: "sha1", 32: "md5"}
        algorithm, digits = lengths.get(len(algorithm), ""), algorithm
    algorithm, digits = algorithm.lower(), digits.lower()
    if algorithm not in ALGORITHMS:
        raise BadInput(
            f"'{text}' is no checksum", hint=f"ALGORITHM:DIGITS; algorithms: {', '.join(ALGORITHMS)}"
        )
    wanted = {"sha512": 128, "sha384": 96, "sha256": 64, "sha1": 40, "md5": 32}[algorithm]
    if len(digits) != wanted or not re.fullmatch("[0-9a-f]+", digits):
        raise BadInput(
            f"'{digits}' is no {algorithm} checksum", hint=f"{algorithm} has {wanted} hexadecimal digits"
        )
    return Checksum(algorithm, digits)


def parse_rate(text: str) -> float:
    """Parse `50MB/s`, `50M`, `48MiB/s`, `1Gbit/s` into bytes a second: networks count in powers of ten, Ki, Mi, Gi of
    two; B is a byte and b, as in `100Mbps`, a bit.

    >>> parse_rate("50MB/s"), parse_rate("1MiB/s"), parse_rate("1Gbit/s"), parse_rate("20k"), parse_rate("1Gbps")
    (50000000.0, 1048576.0, 125000000.0, 20000.0, 125000000.0)
    """
    match = _RATE.match(text)
    if match is None or not float(match[1]):
        raise BadInput(f"'{text}' is not a rate", hint="write it like 50MB/s, 48MiB/s or 1Gbit/s")
    base = 1024 if match[3] else 1000
    bits = match[4] == "b" or (match[4] or "").lower() == "bit"
    factor: int = base ** _POWERS[match[2].lower()]
    return float(match[1]) * factor / (8 if bits else 1)


def order_of(
    source: Source,
    output: Path | None,
    limits: Limits,
    *,
    again: bool = False,
    quiet: bool = False,
    as_json: bool = False,
) -> dict[str, Any]:
    """Make the document that contend-fetch reads. output: None is stdout.

    Raises BadInput for a certificate without a key.

    >>> order_of(Source("http://host/image"), None, Limits())["output"] is None
    True
    """
    certificate = None
    if source.certificate is not None:
        file, key = source.certificate
        certificate = (file, key or file)
    return {
        "url": source.url,
        "headers": list(source.headers),
        "output": None if output is None else os.fspath(output),
        "checksum": None if source.checksum is None else source.checksum.to_json(),
        "size": source.size,
        "cpu_max": limits.cpu_max,
        "rate": limits.rate,
        "nice": limits.nice,
        "timeout_s": limits.timeout_s,
        "retries": limits.retries,
        "anew": again,
        "cacert": source.verify if isinstance(source.verify, str) else None,
        "certificate": certificate,
        "verify": source.verify is not False,
        "quiet": quiet,
        "json": as_json,
        "name": source.name or None,
    }


def program() -> Path:
    """Path of contend-fetch. Raises HostFailed where there is none."""
    return programs.installed("contend-fetch")


def become(order: Mapping[str, Any]) -> NoReturn:
    """Replace this process by contend-fetch: it reads the order on its stdin, where no other user can."""
    executable = program()
    with os.fdopen(os.memfd_create("order"), "w+b") as file:  # on no disk either
        file.write(json.dumps(order).encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.execv(executable, [str(executable)])
        except OSError as error:
            raise HostFailed(f"cannot start {executable}: {error.strerror}", hint="make setup") from error
