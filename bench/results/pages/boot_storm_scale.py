"""One storm of many servers."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """What became of them, and what the client took."""
    rows = [
        ["servers asked for at once", d["servers"]],
        ["ACTIVE", d["active"]],
        [
            "failed; left behind; stamps that disagree",
            f"{d['failed']}; {d['left']}; {d['disagreeing_stamps']}",
        ],
        ["median boot", f"{d['median_s']:.1f} s"],
        ["makespan", f"{d['makespan_s']:.1f} s"],
        ["all deleted after another", f"{d['deleted_s']:.1f} s"],
        [
            "client, start-up included",
            f"{d['client_cpu_s']:.2f} CPU-s, {d['client_cpu_s_per_100']:.2f} per 100 boots",
        ],
        ["of that while servers booted", f"{d['while_booting_cpu_s']:.2f} CPU-s"],
        ["polls", d["polls"]],
        ["width of the interval of ACTIVE, median", f"{d['width_median_s']:.1f} s"],
        ["requests in all", f"{d['requests']:,}"],
        ["client's threads, memory, at most", f"{d['threads']}, {d['memory_mib']} MiB"],
    ]
    return (
        "A bed of 8 fake computes with the fix of the [case study](../guides/case-nova.md):"
        " `testbed/openstack/openstack up --without volume --without orchestration --computes 8 --patch"
        " testbed/openstack/patches/nova-34-allocations.patch`.\n\n" + table(["", ""], rows, "lr")
    )
