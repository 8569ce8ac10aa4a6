"""Kills while a cloud is filled."""

from __future__ import annotations

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, table


def body(d: Data) -> str:
    """What was left, and a row for each kill."""
    rows = [
        [
            life["kind"],
            f"{life['after_s']:.0f} s",
            "contend alone" if life["alone"] else "with its client",
            f"{sum(life['pending'].values())} ({life['unanswered']})",
            life["removed"],
            f"{life['took_s']:.0f} s",
        ]
        for life in d["lives"]
    ]
    head = ["kind", "killed after", "", "in the ledger (unanswered)", "removed", "`destroy` took"]
    return f"""\
`contend run control-plane-growth` on a real OpenStack (`testbed/openstack`), with a second tenant as the neighbour, is killed
with SIGKILL at a random moment of a pass over one kind of entity; then `contend destroy --all` has to leave nothing of any kind
on the cloud, in any project, and nothing on this host, and a stranger's network, whose name begins with `contend-` too, has to
stay.

**{d["clean"]} of {d["kills"]}** left nothing (95 % bounds for the share of moments, Clopper–Pearson:
{bounds(*clopper_pearson(d["clean"], d["kills"]))}).

{table(head, rows)}"""
