"""`boot-storm-local prepare | storm | finish`: what the workload boot-storm-local runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from contend import names
from contend.clouds.base import Machines
from contend.clouds.local import domains, guest, qemu
from contend.clouds.local.containers import Containers, Made
from contend.clouds.local.removal import FILES, IMAGE, new_files, remove
from contend.clouds.local.settle import VM_ENGINES, accelerator
from contend.clouds.local.vms import MicroVms
from contend.clouds.storm.document import write
from contend.clouds.storm.storm import StormOptions, storm
from contend.platforms import bundles, engines
from contend.platforms.guests import kernels, virsh
from contend.store.state import record_of
from contend.workloads.generators import verbs
from contend.workloads.generators.cloud import trial_prefix
from contend.workloads.parameters_file import Placeholders

_FILE = "machine.json"  # in {work}: what every machine of the run is


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload boot-storm-local."""

    n: int
    network: str
    cloud: str
    engine: str
    image: str
    kernel: str
    accel: str
    uri: str
    memory_mib: int
    rate: float
    within: float
    tolerate: float


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.run(arguments, Parameters, {"prepare": _prepare, "storm": _storm, "finish": _finish})


def _prepare(given: Parameters, at: Placeholders) -> None:
    """Make what all storms share, before the first: an initramfs, or a root directory or image."""
    if given.engine in VM_ENGINES:
        settings = {"kernel": given.kernel, "accel": given.accel, "memory_mib": given.memory_mib}
        accel, _ = accelerator(settings)
        kernel = kernels.find(given.kernel)
        if given.engine == "libvirt":
            made = asdict(_domain(given, at, accel, kernel))
        else:
            initramfs = at.work / "initramfs"
            init = guest.make_initramfs(initramfs, at.work)
            made = asdict(qemu.machine(accel, kernel, initramfs, given.memory_mib, init))
    else:
        made = asdict(_containers(given, at))
    (at.work / _FILE).write_text(json.dumps(made) + "\n", encoding="utf-8")


def _domain(given: Parameters, at: Placeholders, accel: str, kernel: Path) -> domains.Domain:
    uri = virsh.detect(given.uri)
    folder = new_files(at.run.name)
    with record_of(at.run) as record:
        record.intend(FILES, (str(folder),))
    copied, initramfs = domains.put_files(folder, kernel, at.work)
    return domains.Domain(uri, str(copied), str(initramfs), accel, given.memory_mib)


def _containers(given: Parameters, at: Placeholders) -> Made:
    engine = engines.detect(given.engine)
    root = bundles.Bundle(at.work / "root")
    root.make_rootfs(at.run.name)
    image = given.image
    if engine.name == "docker" and not image:  # it runs no bare root directory
        image = _import(at, engine, root.rootfs)
    return Made(engine, str(root.rootfs), image)


def _import(at: Placeholders, engine: engines.Engine, rootfs: Path) -> str:
    image = f"{names.PREFIX}-{names.short_hash(at.run.name)}"
    if engine.call("images", "--quiet", image).strip():  # another cell of the run has
        return image
    with record_of(at.run) as record:
        record.intend(IMAGE, (image,), engine=engine.name)
    engine.make_image(image, rootfs)
    return image


def _storm(given: Parameters, at: Placeholders) -> None:
    made = json.loads((at.work / _FILE).read_text(encoding="utf-8"))
    prefix = trial_prefix(at)
    with record_of(at.run) as record:
        machines: Machines
        if given.engine == "libvirt":
            machines = domains.Domains(domains.Domain(**made), record, given.network)
        elif given.engine == "qemu":
            machines = MicroVms(qemu.Machine(**made), record, given.network)
        else:
            door = at.work / f"door-{prefix.rpartition('-')[2]}"
            door.mkdir()
            machines = Containers(Made.read(made), record, door, given.network)
        happened = storm(machines, prefix, StormOptions(given.n, given.rate, given.within))
    write(happened, at.out / "storm.json", given.tolerate)


def _finish(given: Parameters, at: Placeholders) -> None:
    """Remove what `_prepare` has made outside of the run's directory."""
    run = at.run
    image = f"{names.PREFIX}-{names.short_hash(run.name)}"
    made = json.loads((at.work / _FILE).read_text(encoding="utf-8"))
    if given.engine == "libvirt":
        folder = str(Path(made["kernel"]).parent)
        with record_of(at.run) as record:
            if not any(gone.why for gone in remove([{"kind": FILES, "name": folder, "run": run.name}])):
                record.removed(FILES, (folder,))
    if made.get("image") == image:
        engines.remove_image(made["engine"]["name"], image)
        with record_of(at.run) as record:
            record.removed(IMAGE, (image,))
