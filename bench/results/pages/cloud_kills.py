"""Kills of boot storms on a cloud."""

from __future__ import annotations

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds


def body(d: Data) -> str:
    """What was left."""
    hits = [life for life in d["lives"] if life["pending"]]
    clean = sum(not life["left"] and not life["code"] for life in hits)
    return f"""\
`contend run boot-storm` with eight servers on a real OpenStack (`testbed/openstack`) is killed with SIGKILL at a random moment
of its first storms, alone or with its client; then `contend destroy --all` has to leave no server on the cloud and nothing on
this host, and a server of somebody else's, whose name begins with `contend-` too, has to stay.

**{clean} of {len(hits)}** kills that hit a run with servers on record left nothing (95 % bounds for the share of moments,
Clopper–Pearson: {bounds(*clopper_pearson(clean, len(hits)))}). Kills that came before any server was asked for, or after the
run's end, are not counted: {len(d["lives"]) - len(hits)}. Servers found and deleted by `destroy`: {d["servers_removed"]}; it took
up to {max(life["took_s"] for life in hits):.0f} s.

- contend alone was killed {sum(life["alone"] for life in hits)} times: its client went on asking for servers
- of {sum(life["unanswered"] > 0 for life in hits)} runs the ledger held servers without an answer on record"""
