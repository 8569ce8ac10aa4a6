"""Files that nginx serves to `image-download`: a random image, Glance's answers about it, and a certificate of its own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

from contend.errors import HostFailed
from contend.platforms.packages import install_command
from contend.units import format_value
from contend.workloads.downloads.clients import IMAGE_ID

HTTPS_PORT = "https-port"  # a file of the trial: which port nginx speaks TLS on
_PIECE = 1 << 20
_SPARE_BYTES = 512 << 20  # what is left free on the disk


def make(folder: Path, size: int) -> str:
    """Write image, about (JSON), schema, versions, certificate.pem and key.pem into `folder`. Returns the image's sha512.

    Files that another variant of the run has made are used again.

    Raises HostFailed where the disk has no room for the image and a copy of it, or openssl fails.
    """
    with contextlib.suppress(OSError, ValueError):
        about = json.loads((folder / "about").read_text(encoding="utf-8"))
        if (
            about["size"] == size == (folder / "image").stat().st_size
            and (folder / "certificate.pem").exists()
        ):
            return str(about["os_hash_value"])
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < 2 * size + _SPARE_BYTES:
        raise HostFailed(
            f"{folder} has {format_value(free, 'B')} free: an image of {format_value(size, 'B')} and a copy do not fit",
            hint="a smaller size, like --set parameters.size=512M",
        )
    secure, old = hashlib.sha512(), hashlib.md5(usedforsecurity=False)
    with (folder / "image").open("wb") as file:
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
    certify(folder)
    link = {"rel": "self", "href": "/v2/"}
    versions = {"versions": [{"id": "v2.9", "status": "CURRENT", "links": [link]}]}
    schema = {"name": "image", "properties": {}, "additionalProperties": True}
    for name, document in (
        ("versions", versions),
        ("schema", schema),
        ("about", about),
    ):  # the last says that all is there
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return secure.hexdigest()


def certify(folder: Path) -> None:
    """Make certificate.pem and key.pem: self-signed, for loopback's names, for clients to trust. Raises HostFailed."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words += ["-addext", "basicConstraints=critical,CA:FALSE"]
    words += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostFailed("openssl makes no certificate", hint=install_command("openssl")) from error


def configuration(text: str, folder: Path, http: int, https: int) -> str:
    """Fill in the catalogue's image-download.conf.

    >>> configuration("HTTP PLACE", Path("/p"), 1, 2)
    '1 /p'
    """
    for name, value in (
        ("HTTPS", https), ("HTTP", http), ("PLACE", folder), ("IMAGE_ID", IMAGE_ID),
    ):  # fmt: skip
        text = text.replace(name, str(value))
    return text


def serve(folder: Path, conf: Path, http: int, out: Path) -> NoReturn:
    """Become nginx, which serves what `make` made on port `http`, by TLS on the one that HTTPS_PORT names.

    conf: the catalogue's image-download.conf; out: directory for what nginx writes.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        https = taken.getsockname()[1]
    (out / HTTPS_PORT).write_text(str(https), encoding="utf-8")
    filled = out / "nginx.conf"
    filled.write_text(configuration(conf.read_text(encoding="utf-8"), folder, http, https), encoding="utf-8")
    # As root, workers keep root's identity: another user could not read what lies below a private directory.
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    os.execvp("nginx", ["nginx", "-p", str(out), "-c", str(filled), "-e", "stderr", *user])
