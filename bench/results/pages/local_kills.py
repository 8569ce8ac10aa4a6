"""Kills of storms of this host's machines."""

from __future__ import annotations

from collections import Counter

from results.files import Data
from results.words import bounds


def body(d: Data) -> str:
    """What was left."""
    lives = d["lives"]
    kinds = ", ".join(f"{count} of {kind}" for kind, count in Counter(life["kind"] for life in lives).items())
    return f"""\
`contend run boot-storm --cloud local` is killed with SIGKILL at a random moment of its storms, alone or with all that it started
except podman itself; then `contend destroy --all` has to leave no container, process, domain, link or network namespace.

**{d["clean"]} of {d["kills"]}** left nothing ({kinds}; 95 % bounds for the share of moments, Clopper–Pearson:
{bounds(*d["bounds_95"])}). Machines and taps found and removed by `destroy` one by one: {d["machines_removed"]} (those in the
run's control group go with it); it took up to {max(life["took_s"] for life in lives):.0f} s.

- contend alone was killed {sum(life["alone"] for life in lives)} times: its client went on making machines
- the ledger held machines in {sum(life["pending"] > 0 for life in lives)} cases"""
