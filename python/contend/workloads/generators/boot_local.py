"""`boot-storm-local prepare | storm | finish`: what the workload boot-storm-local runs."""

from __future__ import annotations

import argparse
import io
import json
import secrets
import tarfile
from dataclasses import asdict
from pathlib import Path

from contend.clouds.base import Machines
from contend.clouds.local import domains, guest, qemu
from contend.clouds.local.containers import Containers, Made
from contend.clouds.local.removal import FILES, IMAGE, new_files, remove
from contend.clouds.local.settle import VM_ENGINES, accelerator
from contend.clouds.local.vms import MicroVms
from contend.clouds.openstack import unique_name
from contend.clouds.storm.document import write
from contend.clouds.storm.storm import Asked, storm
from contend.ledger import Record, path_of
from contend.platforms import bundles, engines, names
from contend.platforms.guests import virsh
from contend.workloads.generators import verbs

_FILE = "machine.json"  # in {work}: what every machine of the run is


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.run(_parser(), arguments)


def _prepare(given: argparse.Namespace) -> None:
    """What all storms share, made before the first: an initramfs, or a root directory or image."""
    if given.engine in VM_ENGINES:
        asked = {"kernel": given.kernel, "accel": given.accel, "memory_mib": given.memory_mib}
        accel, _ = accelerator(asked)
        kernel = guest.find_kernel(given.kernel)
        if given.engine == "libvirt":
            made = asdict(_domain(given, accel, kernel))
        else:
            initramfs = given.work / "initramfs"
            init = guest.make_initramfs(initramfs, given.work)
            made = asdict(qemu.machine(accel, kernel, initramfs, given.memory_mib, init))
    else:
        made = asdict(_containers(given))
    (given.work / _FILE).write_text(json.dumps(made) + "\n", encoding="utf-8")


def _domain(given: argparse.Namespace, accel: str, kernel: Path) -> domains.Domain:
    uri = virsh.detect(given.uri)
    folder = new_files(given.run.name)
    with Record(path_of(given.run), given.run.name) as record:
        record.intend(FILES, (str(folder),))
    copied, initramfs = domains.put_files(folder, kernel, given.work)
    return domains.Domain(uri, str(copied), str(initramfs), accel, given.memory_mib)


def _containers(given: argparse.Namespace) -> Made:
    engine = engines.detect(given.engine)
    root = bundles.Bundle(given.work / "root")
    root.make_rootfs(given.run.name)
    image = given.image
    if engine.name == "docker" and not image:  # it runs no bare root directory
        image = _import(given, engine, root.rootfs)
    return Made(engine.name, engine.command, engine.rlimits, engine.version, str(root.rootfs), image)


def _import(given: argparse.Namespace, engine: engines.Engine, rootfs: Path) -> str:
    run = given.run
    image = f"{names.PREFIX}-{names.short_hash(run.name)}"
    if engine.call("images", "--quiet", image).strip():  # another cell of the run has
        return image
    with Record(path_of(run), run.name) as record:
        record.intend(IMAGE, (image,), engine=engine.name)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(rootfs, arcname=".")
    engine.call("import", "-", image, input_=packed.getvalue())
    return image


def _storm(given: argparse.Namespace) -> None:
    run: Path = given.run
    made = json.loads((given.work / _FILE).read_text(encoding="utf-8"))
    # Of no other storm, nor of this trial's when it was tried before.
    prefix = unique_name(run.name, f"{given.out.parent.name.lstrip('0') or '0'}-{secrets.token_hex(2)}")
    with Record(path_of(run), run.name) as record:
        machines: Machines
        if given.engine == "libvirt":
            machines = domains.Domains(domains.Domain(**made), record, given.network)
        elif given.engine == "qemu":
            machines = MicroVms(qemu.Machine(**made), record, given.network)
        else:
            made["command"], made["rlimits"] = tuple(made["command"]), tuple(made["rlimits"])
            door = given.work / f"door-{prefix.rpartition('-')[2]}"
            door.mkdir()
            machines = Containers(Made(**made), record, door, given.network)
        happened = storm(machines, prefix, Asked(given.n, given.rate, given.within))
    write(happened, given.out, given.tolerate)


def _finish(given: argparse.Namespace) -> None:
    """What `_prepare` has made outside of the run's directory."""
    run = given.run
    image = f"{names.PREFIX}-{names.short_hash(run.name)}"
    made = json.loads((given.work / _FILE).read_text(encoding="utf-8"))
    if given.engine == "libvirt":
        folder = str(Path(made["kernel"]).parent)
        with Record(path_of(run), run.name) as record:
            if not any(why for *_, why in remove([{"kind": FILES, "name": folder, "run": run.name}])):
                record.removed(FILES, (folder,))
    if made.get("image") == image:
        engines.remove_image(made["engine"], image)
        with Record(path_of(run), run.name) as record:
            record.removed(IMAGE, (image,))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="boot-storm-local", description="Machines of this host, created at once and timed."
    )
    verbs = parser.add_subparsers(required=True, metavar="prepare | storm | finish")
    prepare = verbs.add_parser("prepare", help="make what all machines are made of")
    prepare.add_argument("--image", default="")
    prepare.add_argument("--kernel", default="")
    prepare.add_argument("--accel", default="auto")
    prepare.add_argument("--uri", default="")
    prepare.add_argument("--memory-mib", type=int, default=128)
    prepare.set_defaults(run_verb=_prepare)
    one = verbs.add_parser("storm", help="one storm")
    one.add_argument("--out", type=Path, required=True, help="the storm's document goes here")
    one.add_argument("--network", default="none")
    one.add_argument("--n", type=int, required=True)
    one.add_argument("--rate", type=float, default=0.0)
    one.add_argument("--within", type=float, default=300.0, help="seconds")
    one.add_argument("--tolerate", type=float, default=0.0, help="share of machines that may fail")
    one.set_defaults(run_verb=_storm)
    finish = verbs.add_parser("finish", help="remove what prepare made outside of the run's directory")
    finish.set_defaults(run_verb=_finish)
    for verb in (prepare, one, finish):
        # Whole paths: engines and runtimes have working directories of their own.
        for name, what in (("--work", "the workload's directory"), ("--run", "the run's, with its ledger")):
            verb.add_argument(name, type=lambda text: Path(text).resolve(), required=True, help=what)
        verb.add_argument("--engine", default="")
    return parser
