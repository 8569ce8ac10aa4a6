"""Who could have changed a file: groups, access lists, and the home that sudo leaves."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from contend.store import ownership, state
from support.prerequisites import need

root = pytest.mark.needs(os.geteuid() == 0, "only root can give files away")


def test_a_group_of_this_user_alone_is_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian and Red Hat give each user a group, and a umask of 002."""
    tmp_path.chmod(0o770)
    monkeypatch.setattr(ownership, "_private", lambda gid: gid == tmp_path.stat().st_gid)
    assert ownership.why_changeable(tmp_path) == ""
    monkeypatch.setattr(ownership, "_private", lambda gid: False)
    assert ownership.why_changeable(tmp_path) == f"{tmp_path} can be written by its group"


def test_of_an_access_list_the_group_bits_are_the_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_private", lambda gid: True)
    tmp_path.chmod(0o750)
    # acl(5) as the kernel keeps it: the owner, user 65534 with rwx, the group, the mask, others.
    entries = ((1, 7, 2**32 - 1), (2, 7, 65534), (4, 0, 2**32 - 1), (16, 7, 2**32 - 1), (32, 0, 2**32 - 1))
    try:
        os.setxattr(
            tmp_path,
            "system.posix_acl_access",
            struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries),
        )
    except OSError as error:
        need(False, f"no access lists here: {error.strerror}")
    assert "can be written by its group" in ownership.why_changeable(tmp_path)


@root
def test_a_configuration_is_roots_or_this_users(tmp_path: Path) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text("")
    assert ownership.why_file_changeable(file) == ""
    file.chmod(0o666)
    assert "can be written by others" in ownership.why_file_changeable(file)
    file.chmod(0o600)
    os.chown(file, 65534, -1)
    assert "belongs to nobody" in ownership.why_file_changeable(file)
    os.chown(file, 0, -1)
    os.chown(tmp_path, 65534, -1)
    assert "belongs to nobody" in ownership.why_file_changeable(file)
    assert "cannot be opened" in ownership.why_file_changeable(tmp_path / "none")


@root
def test_sudo_that_leaves_a_users_home_does_not_put_roots_state_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state.folder() == tmp_path / ".local/state/contend/runs"
    os.chown(tmp_path, 65534, -1)
    assert state.folder() == Path("/root/.local/state/contend/runs")
