"""What nginx serves to `image-download`: a random image, Glance's answers about it, and a certificate of its own.

And what is built for its clients.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from contend.errors import ContendError, HostFailed
from contend.units import format_value, parse_size_bytes
from contend.workloads.downloads.clients import IMAGE_ID, put_program
from contend.workloads.generators.telling import failed

HTTPS_PORT = "https-port"  # a file of the trial: which port nginx speaks TLS on
_PIECE = 1 << 20
_SPARE_BYTES = 512 << 20  # what is left free on the disk


def make(place: Path, size: int) -> str:
    """Files below `place`: image, about (JSON), schema, versions, certificate.pem, key.pem. Returns the sha512.

    What another variant of the run has made is used again.

    Raises HostFailed where the disk has no room for the image and a copy of it, or openssl fails.
    """
    with contextlib.suppress(OSError, ValueError):
        about = json.loads((place / "about").read_text(encoding="utf-8"))
        if about["size"] == size == (place / "image").stat().st_size and (place / "certificate.pem").exists():
            return str(about["os_hash_value"])
    place.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place).free
    if free < 2 * size + _SPARE_BYTES:
        raise HostFailed(
            f"{place} has {format_value(free, 'B')} free: an image of {format_value(size, 'B')} and a copy do not fit",
            hint="a smaller size, like --set parameters.size=512M",
        )
    secure, old = hashlib.sha512(), hashlib.md5(usedforsecurity=False)
    with (place / "image").open("wb") as file:
        for at in range(0, size, _PIECE):
            piece = os.urandom(min(_PIECE, size - at))
            secure.update(piece)
            old.update(piece)
            file.write(piece)
    about = {
        "id": IMAGE_ID, "name": "image", "status": "active", "size": size, "disk_format": "raw",
        "container_format": "bare", "visibility": "public", "checksum": old.hexdigest(),
        "os_hash_algo": "sha512", "os_hash_value": secure.hexdigest(), "schema": "/v2/schemas/image",
        "file": f"/v2/images/{IMAGE_ID}/file",
    }  # fmt: skip
    certify(place)
    link = {"rel": "self", "href": "/v2/"}
    versions = {"versions": [{"id": "v2.9", "status": "CURRENT", "links": [link]}]}
    schema = {"name": "image", "properties": {}, "additionalProperties": True}
    for name, told in (
        ("versions", versions),
        ("schema", schema),
        ("about", about),
    ):  # the last says that all is there
        (place / name).write_text(json.dumps(told), encoding="utf-8")
    return secure.hexdigest()


def certify(place: Path) -> None:
    """certificate.pem and key.pem: self-signed, of loopback's names, which clients are told to trust. Raises HostFailed."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words += ["-addext", "basicConstraints=critical,CA:FALSE"]
    words += ["-keyout", str(place / "key.pem"), "-out", str(place / "certificate.pem")]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostFailed("openssl makes no certificate", hint="apt-get install openssl") from error


def configuration(text: str, place: Path, http: int, https: int) -> str:
    """The catalogue's image-download.conf, filled in.

    >>> configuration("HTTP PLACE", Path("/p"), 1, 2)
    '1 /p'
    """
    for name, value in (
        ("HTTPS", https), ("HTTP", http), ("PLACE", place), ("IMAGE_ID", IMAGE_ID),
    ):  # fmt: skip
        text = text.replace(name, str(value))
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: that of the error where there is one."""
    try:
        return _main(arguments)
    except ContendError as error:
        return failed(error)


def _main(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="download-server", description=__doc__)
    parser.add_argument("verb", choices=["client", "make", "serve"])
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--size", type=parse_size_bytes, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--conf", type=Path)
    parser.add_argument("--client", default="", help="what has to be built for")
    parser.add_argument("--cache", type=Path, help="what was built is kept here between runs")
    options = parser.parse_args(arguments)
    if options.verb == "client":
        put_program(options.client, options.place, options.cache)
        return 0
    if options.verb == "make":
        make(options.place, options.size)
        return 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        https = taken.getsockname()[1]
    (options.out / HTTPS_PORT).write_text(str(https), encoding="utf-8")
    text = configuration(options.conf.read_text(encoding="utf-8"), options.place, options.port, https)
    conf = options.out / "nginx.conf"
    conf.write_text(text, encoding="utf-8")
    # As root, workers keep root's identity: another user could not read what lies below a private directory.
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    return os.execvp("nginx", ["nginx", "-p", str(options.out), "-c", str(conf), "-e", "stderr", *user])


if __name__ == "__main__":
    raise SystemExit(main())
