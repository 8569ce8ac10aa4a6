"""Kills of storms of this host's machines."""

from __future__ import annotations

from collections import Counter

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds


def body(d: Data) -> str:
    """What was left."""
    hits = [life for life in d["lives"] if life["pending"]]
    clean = sum(not life["left"] and not life["code"] for life in hits)
    kinds = ", ".join(f"{count} of {kind}" for kind, count in Counter(life["kind"] for life in hits).items())
    return f"""\
`contend run boot-storm --cloud local` is killed with SIGKILL at a random moment of its storms, alone or with all that it started
except podman itself; then `contend destroy --all` has to leave no container, process, domain, link or network namespace.

**{clean} of {len(hits)}** kills that hit a run with machines on record left nothing ({kinds}; 95 % bounds for the share of
moments, Clopper–Pearson: {bounds(*clopper_pearson(clean, len(hits)))}). Kills that met none on record are not counted:
{len(d["lives"]) - len(hits)}. Machines and taps found and removed by `destroy` one by one: {d["machines_removed"]} (those in the
run's control group go with it); it took up to {max(life["took_s"] for life in hits):.0f} s.

- contend alone was killed {sum(life["alone"] for life in hits)} times: its client went on making machines"""
