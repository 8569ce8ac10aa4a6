"""Kills of boot storms on a cloud."""

from __future__ import annotations

from results.files import Data
from results.words import bounds


def body(d: Data) -> str:
    """What was left."""
    lives = d["lives"]
    return f"""\
`contend run boot-storm` with eight servers on a real OpenStack (`testbed/openstack`) is killed with SIGKILL at a random moment
of its first storms, alone or with its client; then `contend destroy --all` has to leave no server on the cloud and nothing on
this host, and a server of somebody else's, whose name begins with `contend-` too, has to stay.

**{d["clean"]} of {d["kills"]}** left nothing (95 % bounds for the share of moments, Clopper–Pearson: {bounds(*d["bounds_95"])}).
Servers found and deleted by `destroy`: {d["servers_removed"]}; it took up to {max(life["took_s"] for life in lives):.0f} s.

- contend alone was killed {sum(life["alone"] for life in lives)} times: its client went on asking for servers
- the ledger held servers in {sum(life["pending"] > 0 for life in lives)} cases, without an answer on record in
  {sum(life["unanswered"] > 0 for life in lives)}"""
