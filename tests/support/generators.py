"""Files of parameters, as the engine writes them for contend's own generators."""

from __future__ import annotations

from pathlib import Path

from contend.workloads.instance import resolve
from contend.workloads.load import load
from contend.workloads.spec import Scalar


def parameters_file(
    workload: str, work: Path, out: Path, port: int = 0, seed: int = 1, **parameters: Scalar
) -> str:
    """The path of the file that a command of a catalogue's workload is given, with its defaults for the rest."""
    instance = resolve(load(workload), parameters)
    values = {"work": work, "out": out, "seconds": 1, "cpus": 1, "cpu_list": "0", "seed": seed, "port": port}
    values |= {"address": "127.0.0.1", "cache": work / "cache", "native": "native"}
    instance.write_parameters(values)
    return str(instance.values(values)["parameters"])
