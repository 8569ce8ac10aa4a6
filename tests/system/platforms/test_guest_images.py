"""A guest boots a user's own disk: partitions, in a hypervisor's format."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.guests import disk, image
from contend.platforms.guests.needs import need as need_guests
from contend.platforms.vm import VmPlatform
from contend.store.ledger import Ledger
from support.disks import as_qcow2, partitioned
from support.platform_cases import shell, spec
from support.prerequisites import need


def test_a_disk_with_partitions_boots(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "root")
    try:
        need_guests()
    except CannotHonour as error:
        need(False, error.message)
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        own = image.build(image.recipe(), "r-own", ledger)
        (tmp_path / "first").write_bytes(bytes(1 << 20))
        given = as_qcow2(partitioned(tmp_path / "raw", [tmp_path / "first", own]), tmp_path / "given.qcow2")
        (tmp_path / "raw").unlink()
        platform = VmPlatform("r-own", ledger, directory=tmp_path, image=str(given))
        try:
            host = platform.prepare(spec("guest", tmp_path))
            process = host.run(shell("findmnt -no SOURCE / || grep ' / ' /proc/mounts", tmp_path))
            assert process.wait(60).code == 0
            told = platform.describe()
        finally:
            platform.close()
            shutil.rmtree(disk.as_raw(given, "r-own", ledger).parent)
    assert "/dev/vda2" in (tmp_path / "out").read_text()
    assert told["image"] == str(given)
