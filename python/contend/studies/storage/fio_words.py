"""Command lines of fio for a storage sweep, on any platform: braces are placeholders and parameters of its workload."""

from __future__ import annotations

from collections.abc import Mapping

from contend.workloads.spec import Parameter

LOAD: Mapping[str, Parameter] = {
    "kind": Parameter(default="randrw", about="fio's rw"),
    "read": Parameter(default=100, min=0, max=100, unit="%"),
    "block": Parameter(default="4096", unit="B"),
    "depth": Parameter(default=1, min=1, max=1024, about="requests outstanding, of each thread"),
    "jobs": Parameter(default=1, min=1, max=1024, about="threads"),
    "engine": Parameter(default="psync"),
    "region": Parameter(default="0", unit="B", about="of the file, that one thread works on"),
    "step": Parameter(default="0", unit="B", about="from one thread's region to the next one's"),
    "offset": Parameter(default="0", unit="B"),
}


def layout(filename: str, size: int, passes: int, direct: bool) -> str:
    """The command that writes all data that is measured later, in sequence."""
    return (
        f"fio --name=prepare --filename={filename} --offset={{offset}} --size={size} --rw=write --bs=1M"
        f" --ioengine=psync --direct={direct:d} --end_fsync=1 --loops={passes} --output-format=json"
    )


def trial(filename: str, direct: bool, *, read_only: bool = False) -> str:
    """The command of a measured trial, which runs for the length of the trial."""
    load = _load(filename, direct, read_only)
    return f"fio --name=trial {load} --runtime={{step_ms}}ms --unified_rw_reporting=1 --output-format=json"


def neighbour(filename: str, direct: bool, *, read_only: bool = False) -> str:
    """The command of a neighbour, which runs until it is stopped."""
    return f"fio --name=neighbour {_load(filename, direct, read_only)} --runtime=30d"


def _load(filename: str, direct: bool, read_only: bool) -> str:
    # --readonly, and a kind that only reads: fio then opens the device for reading.
    return (
        f"--thread --filename={filename} --offset={{offset}} --offset_increment={{step}} --size={{region}}"
        " --numjobs={jobs} --group_reporting --rw={kind} --rwmixread={read} --bs={block} --iodepth={depth}"
        f" --ioengine={{engine}} --direct={direct:d} --norandommap --randseed={{seed}} --time_based --allow_file_create=0"
        + (" --readonly" if read_only else "")
    )
