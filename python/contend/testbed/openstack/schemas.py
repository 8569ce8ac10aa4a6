"""Databases' schemas, keys and the first user: once in the life of a bed's data."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from contend.errors import HostFailed
from contend.testbed.openstack import daemons
from contend.testbed.openstack.bed import REGION, Bed

# Nova fills these in from its configuration: the broker's port is another one after each start, and arguments are for
# all to see.
_OWN = "{scheme}://{username}:{password}"


def nova_manage(bed: Bed) -> list[str]:
    """Arguments that run nova-manage with the bed's configuration."""
    files = (bed.etc / "nova.conf", bed.etc / "nova-db.conf")
    return ["nova-manage", *(word for file in files for word in ("--config-file", str(file)))]


def make(bed: Bed, environment: Mapping[str, str]) -> bool:
    """Make schemas, keys and the first user, once each; True if there was anything to do. Raises HostFailed."""
    stamps = bed.data / "made"
    stamps.mkdir(parents=True, exist_ok=True)
    etc = bed.etc
    keystone = f"keystone-manage --config-file {etc}/keystone.conf"
    nova = " ".join(nova_manage(bed))
    user = pwd.getpwuid(os.geteuid()).pw_name
    owner = f"--keystone-user {user} --keystone-group {grp.getgrgid(os.getegid()).gr_name}"
    url = f"{bed.url('keystone')}/v3"
    chains: tuple[tuple[str, ...], ...] = (
        (
            f"{keystone} db_sync",
            f"{keystone} fernet_setup {owner}",
            f"{keystone} credential_setup {owner}",
            # --bootstrap-password would be for all to see: it is in the environment.
            f"{keystone} bootstrap --bootstrap-region-id {REGION} --bootstrap-public-url {url}"
            f" --bootstrap-internal-url {url} --bootstrap-admin-url {url}",
            f"glance-manage --config-file {etc}/glance-api.conf db_sync",
            f"placement-manage --config-file {etc}/placement.conf db sync",
            f"heat-manage --config-file {etc}/heat.conf db_sync",
        ),
        (
            f"{nova} api_db sync",
            f"{nova} cell_v2 map_cell0 --database_connection {_OWN}@{{hostname}}:{{port}}/nova_cell0",
            f"{nova} cell_v2 create_cell --name cell1"
            f" --database_connection {_OWN}@{{hostname}}:{{port}}/{{path}}"
            f" --transport-url {_OWN}@{{hostname}}:{{port}}/{{path}}",
            f"{nova} db sync",
            f"cinder-manage --config-file {etc}/cinder.conf db sync",
            f"neutron-db-manage --config-file {etc}/neutron.conf upgrade heads",
        ),
    )
    variables = {**environment, "OS_BOOTSTRAP_PASSWORD": bed.password}

    def chain(commands: tuple[str, ...]) -> bool:
        # A cell cannot be made twice, so each command is remembered by itself.
        left = [(command, stamps / hashlib.sha256(command.encode()).hexdigest()[:16]) for command in commands]
        left = [(command, stamp) for command, stamp in left if not stamp.exists()]
        for command, stamp in left:
            try:
                daemons.run(bed, command.split()[0], command.split(), variables)
            except HostFailed as error:
                # MariaDB's changes of a schema are in no transaction: one that was killed may be half done.
                raise HostFailed(
                    error.message,
                    hint=f"{error.hint}; if an earlier `up` was killed, `down --wipe` begins anew",
                ) from error
            stamp.touch()
        return bool(left)

    with ThreadPoolExecutor(len(chains)) as pool:
        return any(list(pool.map(chain, chains)))
