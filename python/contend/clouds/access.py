"""Access to a cloud, once somebody has logged in (`contend.clouds.login`): a token, URLs, whom to trust."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from contend import files
from contend.errors import CannotHonour

# The versions of each API that are spoken here.
VERSIONS: Mapping[str, tuple[int, int]] = {
    "compute": (2, 2),
    "network": (2, 2),
    "image": (2, 2),
    "block-storage": (3, 3),
    "identity": (3, 3),
    "orchestration": (1, 1),
}
_EARLY_S = 120.0  # a token is no longer used so long before it expires


class Access(NamedTuple):
    """Endpoints and token for requests to a cloud. It is written only to files that nobody else can read.

    `expires` is the token's end in seconds since the epoch; `endpoints` are versioned URLs by service type, `catalogue`
    all URLs as the cloud lists them; `verify` (a file or directory of authorities; True: the system's) and `certificate`
    (with its key) are TLS's; `config` is the clouds.yaml it came from, "" for OS_* variables.
    """

    cloud: str
    config: str
    token: str
    expires: float
    project: str
    endpoints: Mapping[str, str]
    verify: bool | str = True
    certificate: tuple[str, str | None] | None = None
    catalogue: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"Access({self.cloud})"

    @property
    def fresh(self) -> bool:
        """True if the token will still do for a storm."""
        return time.time() < self.expires - _EARLY_S

    def endpoint(self, service: str) -> str:
        """URL of a service. Raises CannotHonour for a service that the cloud does not have."""
        try:
            return self.endpoints[service]
        except KeyError:
            raise CannotHonour(
                f"cloud '{self.cloud}' has no {service} service in its catalogue",
                hint=f"it has: {', '.join(sorted(self.endpoints))}",
            ) from None

    def save(self, path: Path) -> None:
        """Write to a file, readable by this user only, for later storms of the same run."""
        text = json.dumps({**self._asdict(), "catalogue": dict(self.catalogue)})
        files.write(path, text.encode(), mode=files.PRIVATE)

    @classmethod
    def load(cls, path: Path) -> Access | None:
        """Read what `save` wrote; None where it did not."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        certificate = data.pop("certificate")
        return cls(**data, certificate=None if certificate is None else (certificate[0], certificate[1]))
