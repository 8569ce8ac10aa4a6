"""What the tests of `contend fetch` share: a server of images, and a place to download to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.image_servers import Fetch, Images, nginx


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    with nginx(tmp_path_factory.mktemp("nginx")) as served:
        yield served


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path)
