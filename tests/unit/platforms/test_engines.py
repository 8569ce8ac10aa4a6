"""Which container engine works, and what to do where none does: by stand-ins that answer as the clients do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.errors import CannotHonour
from contend.platforms import engines

DENIED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock:"
    ' Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.45/version": dial unix /var/run/docker.sock: connect: permission denied'
)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Docker's client without a right to its daemon: `info` says so and ends well, all else fails."""
    client = tmp_path / "docker"
    client.write_text(f"""#!/bin/sh
case "$1" in --version) echo 'Docker version 26.1.5'; exit 0 ;; esac
echo '{DENIED}' >&2
[ "$1" = info ]
""")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    engines.detect.cache_clear()
    yield
    engines.detect.cache_clear()


@pytest.mark.usefixtures("docker")
def test_a_daemon_that_refuses_is_found_out_before_anything_is_made() -> None:
    with pytest.raises(
        CannotHonour, match=r"docker has no daemon that answers: .*permission denied"
    ) as refused:
        engines.detect("docker")
    assert "sudo usermod -aG docker $USER" in refused.value.hint
